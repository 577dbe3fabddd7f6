// Declares the models of a tokenizer.json, which turn a piece of text into tokens: byte-pair encoding, or WordPiece.
//
// Bounds: a vocabulary has at most 2^24 tokens, numbered below 4 times their count and 65 536; there are at most 2^24
// merges. Reading takes memory for at most 64 bytes a byte of the file. For a piece of n bytes, byte-pair encoding
// takes n log n steps and at most 64 bytes a byte; WordPiece looks at words of at most 1000 characters and takes at
// most as many steps a byte as the longest token has bytes.
#pragma once

#include <nlohmann/json_fwd.hpp>

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace plimsoll {

/// A map of tokens by their text and by their number. Numbers may have gaps.
class Vocabulary {
 public:
  /// Reads the object {"text": number}. Throws UserError that begins with `name`: no whole numbers from 0 on, too many,
  /// one number twice.
  Vocabulary(const nlohmann::json& json, const std::string& name);
  Vocabulary(Vocabulary&&) = default;

  /// Returns -1 if there is none.
  int32_t id(std::string_view text) const {
    const auto found = ids_.find(text);
    return found == ids_.end() ? -1 : found->second;
  }
  const std::vector<std::string>& texts() const { return texts_; }  ///< empty for numbers without a token

 private:
  std::vector<std::string> texts_;
  std::unordered_map<std::string_view, int32_t> ids_;  // keys point into texts_
};

class SubwordModel {
 public:
  virtual ~SubwordModel() = default;
  /// Appends the tokens of a piece, which is valid UTF-8 and not empty.
  virtual void encode(std::string_view piece, std::vector<int32_t>& out) const = 0;
  virtual const Vocabulary& vocabulary() const = 0;
  /// Returns the text of a token: the marks of the model are removed, and bytes in hexadecimal ("<0x0A>") become bytes.
  virtual std::string text_of(int32_t token) const = 0;
};

/// Reads the `model` of a tokenizer.json: BPE (without dropout) or WordPiece. Throws UserError that begins with `name`
/// for others, by name, and for merges that do not follow from its vocabulary.
std::unique_ptr<SubwordModel> read_subword_model(const nlohmann::json& json, const std::string& name);

}  // namespace plimsoll
