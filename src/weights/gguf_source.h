// What a GGUF file holds of a decoder: its architecture and its tensors.
#pragma once

#include <filesystem>
#include <memory>

#include "weights/families.h"
#include "weights/source.h"

namespace plimsoll::weights {

/// Quantised tensors come as float32, taken apart as they are read.
std::unique_ptr<Source> open_gguf_source(const std::filesystem::path& path);

/// The architecture of its metadata; `family` is "gguf". Throws UserError (failure) where it is no model of the
/// architecture "llama", or a size is missing or out of bounds.
Architecture read_gguf_architecture(const std::filesystem::path& path);

}  // namespace plimsoll::weights
