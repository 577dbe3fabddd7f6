// The tokenizers of Llama, Mistral and others, from a SentencePiece .model file (Kudo and Richardson 2018), through
// libsentencepiece.
//
// Bounds: a file has at most 64 MiB and is checked before the library loads it (sentencepiece_check.h). Reading takes
// memory for at most 64 bytes a byte of the file. Rules for characters make at most 16 bytes of a byte of text.
// Encoding takes memory for about 100 bytes a byte of a block of 64 KiB, or of a stretch of at most 1 MiB without a
// place to cut: a longer one is cut at a line break or a character.
//
// A model is read with two of its rules off: no space is put before a text, and spaces beside others stay. So a text
// can be cut and put together again. What a model's own file would give for "text" is encode(" text") here.
#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "data/tokenizers/tokenizer.h"

namespace plimsoll {

class SentencePieceTokenizer : public Tokenizer {
 public:
  /// Throws UserError naming the file where it is missing or no SentencePiece model.
  explicit SentencePieceTokenizer(const std::filesystem::path& model_file);
  ~SentencePieceTokenizer() override;

  /// The model's pieces of the text, without its begin and end. Where the model has pieces for single bytes
  /// (byte_fallback) and does not change characters (normalization identity), decode() gives any bytes back; otherwise
  /// what it changes, and characters that it does not know, are lost.
  std::vector<int32_t> encode(std::string_view text) const override;
  std::string decode(std::span<const int32_t> tokens) const override;
  /// The model's pieces; one more where it has none for the end of a text.
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
