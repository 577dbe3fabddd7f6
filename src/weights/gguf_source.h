// Declares the architecture and the tensors of a decoder in a GGUF file.
#pragma once

#include <filesystem>
#include <memory>

#include "weights/families.h"
#include "weights/source.h"

namespace plimsoll::weights {

/// Opens the file. Quantized tensors are dequantized to float32 as they are read.
std::unique_ptr<Source> open_gguf_source(const std::filesystem::path& path);

/// Returns the architecture of its metadata; `family` is "gguf". Throws UserError (failure) if it is no model of the
/// architecture "llama", or a size is missing or out of bounds. A key of the architecture that changes the model in a
/// way that is not computed, or that is not known, is refused by name (weights/gguf_facts.h).
Architecture read_gguf_architecture(const std::filesystem::path& path);

}  // namespace plimsoll::weights
