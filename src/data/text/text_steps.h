// Declares the steps of a tokenizer.json before its model: normalizers change a text, pre-tokenizers cut it.
//
// Bounds: all normalizer steps together add at most 4 bytes a byte of text, and 1 MiB (NormalizedRoom). A file has at
// most 64 steps of either kind, nested Sequences counted, and at most one ByteLevel and one Metaspace. A pre-tokenizer
// makes at most 16 bytes a byte of text, holds one piece of each step, and passes it on immediately.
#pragma once

#include <nlohmann/json_fwd.hpp>

#include <cstddef>
#include <cstring>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "plimsoll/bytes.h"

namespace plimsoll {

constexpr size_t kMaxTextSteps = 64;                   ///< for the normalizers of a file, and for its pre-tokenizers
constexpr std::string_view kLowLine = "\xe2\x96\x81";  ///< U+2581, which represents a space

/// Properties of all steps together, for cutting long texts (Tokenizer::last_cut).
struct StepTraits {
  bool replaces_spaces = false;  ///< no space is left after the normalizers: each is a U+2581
  bool byte_letters = false;     ///< the model reads letters that represent bytes (bpe_ranks.h)
  bool splits_words = false;     ///< no piece has a space after another character
  /// True if a text may be cut before a space after a visible character, and its parts be processed one by one.
  bool can_be_cut = true;
};

/// The bytes that normalizer steps may still add to a text. A step that shortens a text returns nothing, so the work of
/// all steps is bounded too.
class NormalizedRoom {
 public:
  static constexpr size_t kGrowth = 4;       ///< bytes that may be added for each byte of a text
  static constexpr size_t kSpare = 1 * MiB;  ///< bytes that may be added to any text

  explicit NormalizedRoom(size_t text_bytes) : text_bytes_(text_bytes), left_(kGrowth * text_bytes + kSpare) {}

  /// Subtracts `bytes` for the step `step`. Throws UserError (failure) that begins with `step` if they are not left.
  void take(size_t bytes, const std::string& step) {
    if (bytes > left_) refuse(step);
    left_ -= bytes;
  }

 private:
  [[noreturn]] void refuse(const std::string& step) const;

  size_t text_bytes_, left_;
};

/// A function from text to text, both valid UTF-8. Throws UserError (failure) that names the step if its room is
/// exceeded.
using Normalizer = std::function<std::string(std::string text, NormalizedRoom& room)>;

/// Reads the normalizer of a tokenizer.json: NFC, NFD, NFKC, NFKD, Lowercase, StripAccents, Strip, Prepend, Replace,
/// BertNormalizer and sequences of them; null is none. Throws UserError that begins with `name` for others, by name.
Normalizer read_normalizer(const nlohmann::json& json, const std::string& name, StepTraits& traits);

/// A callback for a piece of a text. The piece is not empty and is valid during the call; `first` says that it begins
/// the text.
using PieceVisit = std::function<void(std::string_view piece, bool first)>;

/// A function that cuts a piece into smaller ones and calls visit(piece, first) for each, from front to back.
using PreTokenizer = std::function<void(std::string_view piece, bool first, const PieceVisit& visit)>;

/// Reads the pre-tokenizer of a tokenizer.json: ByteLevel, Split, Digits, Metaspace, Whitespace, WhitespaceSplit,
/// Punctuation, BertPreTokenizer and sequences of them; null is none. Throws UserError as above. Only one thread may
/// use it at a time, because patterns hold their match data.
PreTokenizer read_pre_tokenizer(const nlohmann::json& json, const std::string& name, StepTraits& traits);

/// Calls visit(begin, end) for each occurrence of `what`, which is not empty, from front to back without overlaps.
/// Takes steps for at most the bytes of both texts.
template <typename Visit>
void each_occurrence(std::string_view text, std::string_view what, Visit&& visit) {
  for (size_t at = 0; at < text.size();) {
    const void* found = ::memmem(text.data() + at, text.size() - at, what.data(), what.size());
    if (!found) return;
    const auto begin = static_cast<size_t>(static_cast<const char*>(found) - text.data());
    at = begin + what.size();
    visit(begin, at);
  }
}

}  // namespace plimsoll
