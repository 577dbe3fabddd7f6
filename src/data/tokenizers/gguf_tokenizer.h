// Declares the byte-level BPE tokenizer of a GGUF file.
#pragma once

#include <filesystem>
#include <memory>

#include "data/tokenizers/tokenizer.h"

namespace plimsoll {

/// Reads the tokenizer of a model that splits text as GPT-2 or SmolLM does (`tokenizer.ggml.pre`). Tokens are the
/// model's; control tokens (<|im_start|>) represent only themselves and are never found in a text. A byte that the
/// vocabulary lacks becomes the unknown token. Throws UserError: no GGUF file or damaged, no such tokenizer, or tokens
/// that do not follow from its merges.
std::unique_ptr<Tokenizer> open_gguf_tokenizer(const std::filesystem::path& file);

}  // namespace plimsoll
