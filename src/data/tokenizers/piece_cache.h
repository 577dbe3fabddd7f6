// Declares the cache of a tokenizer: pieces of text with their tokens.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace plimsoll {

constexpr size_t kMaxCachedPieceLength = 64;  ///< bytes: words; longer pieces rarely come twice
constexpr size_t kCachedPieces = 1 << 16;     ///< about 10 MiB when full

/// A hash of a std::string and a std::string_view alike, so that a look-up copies no text.
struct PieceHash {
  using is_transparent = void;
  size_t operator()(std::string_view text) const { return std::hash<std::string_view>()(text); }
};

/// A map from each piece to its tokens. The tokenizer empties it at kCachedPieces.
using PieceCache = std::unordered_map<std::string, std::vector<int32_t>, PieceHash, std::equal_to<>>;

}  // namespace plimsoll
