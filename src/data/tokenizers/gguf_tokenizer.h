// Declares the byte-level BPE tokenizer that a GGUF file brings along.
//
// Bounds: at most 2^24 tokens of at most 1024 bytes each, and not more merges than tokens. Reading takes time linear in
// the file, and memory for at most 32 bytes a byte of its lists.
#pragma once

#include <filesystem>
#include <memory>

#include "data/tokenizers/tokenizer.h"

namespace plimsoll {

/// Of a model that splits text as GPT-2 or SmolLM does (`tokenizer.ggml.pre`). Tokens are the model's; control tokens
/// (<|im_start|>) stand for themselves only and are never found in a text. A byte that the vocabulary lacks becomes the
/// unknown token. Throws UserError: no GGUF file or damaged, no such tokenizer, tokens that do not follow from its
/// merges.
std::unique_ptr<Tokenizer> open_gguf_tokenizer(const std::filesystem::path& file);

}  // namespace plimsoll
