// The tokenizer of a tokenizer.json, as Hugging Face's tokenizers package keeps it.
//
//     text ─ added tokens out ─ normalizer ─ added tokens out ─ pre-tokenizer ─ model ─▶ tokens
//
// Bounds: a file has at most 128 MiB. Reading takes memory for at most 64 bytes a byte of the file, of which the parsed
// JSON, freed afterwards, has the most. Encoding takes at most 4 bytes of normalized text a byte (text_steps.h), 40
// bytes while a byte of a piece is merged (subword_model.h), and a bounded time for patterns (split_pattern.h).
#pragma once

#include <filesystem>
#include <memory>

#include "data/tokenizers/tokenizer.h"

namespace plimsoll {

/// BPE (byte-level, or with bytes for what its vocabulary lacks) and WordPiece, with the normalizers and pre-tokenizers
/// of text_steps.h; others are refused by name. encode() gives the ids that the package gives with
/// add_special_tokens=False: what a post-processor puts before and behind a text is left out, special tokens that stand
/// in the text are found (here text is data: keep such marks out of what strangers wrote, or take another tokenizer).
/// Bytes that are no UTF-8 count as U+FFFD. The end of text is <|endoftext|>, <|end_of_text|>, </s>, <eos> or [SEP],
/// the first of these that there is, or one token more. decode() puts texts of tokens side by side, without the
/// clean-up that a decoder may ask for.
///
/// Throws UserError (failure) that names the file: missing, larger than 128 MiB, damaged, or not known here.
std::unique_ptr<Tokenizer> open_huggingface_tokenizer(const std::filesystem::path& file);

}  // namespace plimsoll
