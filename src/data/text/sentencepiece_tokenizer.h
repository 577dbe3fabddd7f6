// Declares the tokenizers of Llama, Mistral and others, from a SentencePiece .model file (Kudo and Richardson 2018),
// through libsentencepiece.
//
// Bounds: a file has at most 64 MiB and is checked before the library loads it (sentencepiece_check.h). Reading takes
// memory for at most 64 bytes a byte of the file. Rules for characters make at most 16 bytes of a byte of text.
// Encoding takes memory for about 100 bytes a byte of a block of 64 KiB. A stretch of at most 1 MiB without an allowed
// cut is one block; a longer one is cut at a line break or a character.
//
// A model is read with two of its rules off: no space is put before a text, and adjacent spaces stay. So a text can be
// cut and joined again. The result of a model's own rules for "text" is encode(" text") here.
#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "data/text/tokenizer.h"

namespace plimsoll {

class SentencePieceTokenizer : public Tokenizer {
 public:
  /// Throws UserError that names the file if it is missing or no SentencePiece model.
  explicit SentencePieceTokenizer(const std::filesystem::path& model_file);
  ~SentencePieceTokenizer() override;

  /// Returns the model's pieces of the text, without its begin and end. decode() restores any bytes if the model has
  /// pieces for single bytes (byte_fallback) and does not change characters (normalization identity). Otherwise changed
  /// characters and unknown characters are lost.
  std::vector<int32_t> encode(std::string_view text) const override;
  std::string decode(std::span<const int32_t> tokens) const override;
  /// Returns the number of the model's pieces, plus one if no piece ends a text: neither the model nor a
  /// tokenizer_config.json next to a tokenizer.model (tokenizer.h) names one.
  int64_t vocab_size() const override;
  int32_t end_of_text() const override;
  std::string name() const override { return "sentencepiece"; }
  uint64_t fingerprint() const override;
  std::size_t last_cut(std::string_view text) const override;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace plimsoll
