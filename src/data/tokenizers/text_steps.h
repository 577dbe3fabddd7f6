// What a tokenizer.json does to a text before its model sees it: normalizers change it, pre-tokenizers cut it.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>
#include <vector>

namespace plimsoll {

constexpr size_t kMostSteps = 64;                      ///< steps of one Sequence
constexpr std::string_view kLowLine = "\xe2\x96\x81";  ///< U+2581, which stands for a space

/// What is said of all steps together, for cutting long texts (Tokenizer::last_cut).
struct StepTraits {
  bool replaces_spaces = false;  ///< no space is left after the normalizers: U+2581 stands for each
  bool byte_letters = false;     ///< the model sees letters that stand for bytes (byte_letters.h)
  bool splits_words = false;     ///< no piece holds a space behind something else
  /// Whether a text may be cut before a space behind a visible character, and its parts be done with one by one.
  bool can_be_cut = true;
};

/// Text in, text out; both valid UTF-8.
using Normalizer = std::function<std::string(std::string text)>;

/// The normalizer of a tokenizer.json: NFC, NFD, NFKC, NFKD, Lowercase, StripAccents, Strip, Prepend, Replace,
/// BertNormalizer and sequences of them; null is none. Throws UserError that begins with `name` for others, by name.
Normalizer read_normalizer(const nlohmann::json& json, const std::string& name, StepTraits& traits);

struct TextPiece {
  std::string text;
  bool first = false;  ///< it begins where the whole text does
};

/// Cuts each piece into smaller ones, none of them empty.
using PreTokenizer = std::function<std::vector<TextPiece>(std::vector<TextPiece> pieces)>;

/// The pre-tokenizer of a tokenizer.json: ByteLevel, Split, Digits, Metaspace, Whitespace, WhitespaceSplit,
/// Punctuation, BertPreTokenizer and sequences of them; null is none. Throws UserError as above. Not for several
/// threads at once: patterns keep what they match in.
PreTokenizer read_pre_tokenizer(const nlohmann::json& json, const std::string& name, StepTraits& traits);

}  // namespace plimsoll
