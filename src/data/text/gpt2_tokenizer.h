// Declares the byte-level BPE tokenizer of GPT-2, from a tiktoken rank file or from a GGUF file.
//
// Text is first split into pieces by GPT-2's pattern; each piece starts as single bytes, and the adjacent pair whose
// concatenation has the lowest rank is merged, leftmost first, until no pair is a token:
//
//     "low low"  ->  "low" | " low"        l o w -> lo w -> low      (ranks: "lo" 256, "low" 257)
#pragma once

#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "data/text/tokenizer.h"

namespace plimsoll {

class BpeRanks;

/// A variant of the tokenizer, by its differences from GPT-2's.
struct BpeVariant {
  std::string name = "gpt2";
  bool digits_apart = false;            ///< every digit is a separate piece (SmolLM)
  std::optional<int32_t> end_of_text;   ///< a token of the vocabulary; empty: an additional token, after the last
  std::optional<int32_t> unknown_byte;  ///< token for a byte that the vocabulary lacks; empty: the byte is left out
};

class Gpt2Tokenizer : public Tokenizer {
 public:
  /// Reads a rank file: lines of `base64-of-token rank`, the ranks 0 to n - 1 once each in any order, every single byte
  /// among the tokens. The vocabulary is these n tokens and end of text (GPT-2: 50256 + 1). Throws UserError that names
  /// the file and the faulty line.
  explicit Gpt2Tokenizer(const std::filesystem::path& rank_file);
  Gpt2Tokenizer(BpeRanks ranks, BpeVariant variant);
  ~Gpt2Tokenizer() override;

  /// Returns the tokens of tiktoken for valid UTF-8; a byte that is not part of valid UTF-8 is a separate piece.
  std::vector<int32_t> encode(std::string_view text) const override;
  std::string decode(std::span<const int32_t> tokens) const override;
  int64_t vocab_size() const override;
  int32_t end_of_text() const override;
  std::string name() const override;
  uint64_t fingerprint() const override;
  std::size_t last_cut(std::string_view text) const override;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

/// Reads the tokenizer of a model that splits text as GPT-2 or SmolLM does (`tokenizer.ggml.pre`). Tokens are the
/// model's; control tokens (<|im_start|>) represent only themselves and are never found in a text. A byte that the
/// vocabulary lacks becomes the unknown token. Throws UserError: no GGUF file or damaged, no such tokenizer, or tokens
/// that do not follow from its merges.
std::unique_ptr<Tokenizer> open_gguf_tokenizer(const std::filesystem::path& file);

}  // namespace plimsoll
