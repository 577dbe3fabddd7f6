// Declares the tokenizer of a tokenizer.json, the file of Hugging Face's tokenizers package.
//
//     text ─ added tokens out ─ normalizer ─ added tokens out ─ pre-tokenizer ─ model ─▶ tokens
//
// Bounds: a file has at most 128 MiB. Reading takes memory for at most 64 bytes a byte of the file; most of it is the
// parsed JSON, freed afterwards. Encoding takes at most 4 bytes of normalized text a byte (text_steps.h), 40 bytes
// while a byte of a piece is merged (subword_model.h), and a bounded time for patterns (split_pattern.h).
#pragma once

#include <filesystem>
#include <memory>

#include "data/text/tokenizer.h"

namespace plimsoll {

/// Reads BPE (byte-level, or with bytes for characters that its vocabulary lacks) and WordPiece, with the normalizers
/// and pre-tokenizers of text_steps.h; others are rejected by name. encode() returns the ids of the package with
/// add_special_tokens=False. Tokens that a post-processor adds before and after a text are left out. Special tokens in
/// the text are found. (Here text is data: remove such marks from untrusted text, or use another tokenizer.) Bytes that
/// are no UTF-8 count as U+FFFD. The end of text is the one that the files next to a tokenizer.json name
/// (tokenizer.h), or else the first of <|endoftext|>, <|end_of_text|>, </s>, <eos> or [SEP] that exists, or else
/// an additional token, with a note. decode() concatenates the texts of tokens, without the clean-up that a decoder may
/// specify.
///
/// Throws UserError that names the file: missing, larger than 128 MiB, damaged, of an unknown kind, or next
/// to a tokenizer_config.json that contradicts it.
std::unique_ptr<Tokenizer> open_huggingface_tokenizer(const std::filesystem::path& file);

}  // namespace plimsoll
