// Declares a tiktoken rank file, read and checked (the tokens of a byte-level BPE vocabulary and the order of their
// merges), and the letters by which GPT-2 writes bytes.
//
// Bounds: a file has at most 256 MiB, and a token at most 1024 bytes. Reading takes memory for at most 32 bytes a byte
// of the file. Merging a piece of n bytes looks at n log n pairs, and each look-up takes steps for the bytes of the
// pair.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <queue>
#include <string>
#include <string_view>
#include <tuple>
#include <unordered_map>
#include <vector>

namespace plimsoll {

/// A tiktoken rank file, read and checked: the tokens of a byte-level BPE vocabulary and the order of its
/// merges.
class BpeRanks {
 public:
  static constexpr std::size_t kMaxTokenLength =
      1024;  ///< bytes; longer tokens make merging slow, and no model has one

  BpeRanks(BpeRanks&&) = default;
  BpeRanks& operator=(BpeRanks&&) = default;

  /// Reads lines of `base64-of-token rank`: the ranks 0 to n - 1 once each in any order, every single byte among the
  /// tokens. Throws UserError that names the file and the faulty line.
  static BpeRanks read(const std::filesystem::path& file);

  /// Reads them from text; messages call the file `name`.
  static BpeRanks parse(std::string_view text, const std::string& name);

  /// Makes ranks from tokens in order of rank, as other programs store them. An empty token occurs in no text. Single
  /// bytes may be missing. Throws UserError that begins with `name` for a token that comes twice or is too long.
  static BpeRanks of_tokens(std::vector<std::string> tokens, const std::string& name);

  /// Returns the rank of the token with exactly these bytes, or -1.
  int32_t rank(std::string_view bytes) const {
    const auto found = ranks_.find(bytes);
    return found == ranks_.end() ? -1 : found->second;
  }

  /// Returns the bytes of the token of a rank, 0 <= rank < size().
  const std::string& bytes(int32_t rank) const { return tokens_[static_cast<std::size_t>(rank)]; }

  int64_t size() const { return static_cast<int64_t>(tokens_.size()); }

  /// Returns a hash of all tokens in order of rank.
  uint64_t fingerprint() const { return fingerprint_; }

  /// Appends the tokens of one piece of text to `out`. Pairs are merged by rank, leftmost first among equals, in n log
  /// n steps for n bytes. A byte that is no token becomes -1.
  void merge(std::string_view piece, std::vector<int32_t>& out) const;

 private:
  BpeRanks() = default;

  std::vector<std::string> tokens_;
  std::unordered_map<std::string_view, int32_t> ranks_;  // keys point into tokens_, which may be moved but not copied
  uint64_t fingerprint_ = 0;
};

/// Appends the letters by which GPT-2 and its descendants write `bytes`, so that tokens are printable. The letter of a
/// printable Latin-1 character is that character; the other bytes have U+0100 on, in their order (a space is U+0120).
void append_letters(std::string_view bytes, std::string& letters);

/// Appends the bytes of such letters. Returns false if another letter is among them.
bool append_bytes_of_letters(std::string_view letters, std::string& bytes);

/// Merges pairs of neighbors among `size` parts, the lowest rank first and the leftmost first among equals, in n log n
/// steps. A part is named by the position at which it begins, and all begin with length 1. `rank(left, middle, end)`
/// returns the rank of the pair of [left, middle) and [middle, end), or nullopt if it is not merged; `merge` is called
/// with the same positions for each pair that is merged. Returns the end of each part that is left, at the position at
/// which it begins; all other elements are 0. `Position` is an unsigned type that holds `size`.
template <typename Position, typename Rank, typename Merge>
std::vector<Position> merge_pairs(Position size, Rank rank, Merge merge) {
  struct Candidate {
    int32_t rank;
    Position left, middle, end;  // stale if a part begins or ends elsewhere by now
    bool operator>(const Candidate& other) const { return std::tie(rank, left) > std::tie(other.rank, other.left); }
  };
  std::vector<Position> ends(size), previous(size);
  std::priority_queue<Candidate, std::vector<Candidate>, std::greater<>> candidates;
  const auto propose = [&](Position left) {
    const Position middle = ends[left];
    if (middle == size) return;
    if (const std::optional<int32_t> found = rank(left, middle, ends[middle]))
      candidates.push({*found, left, middle, ends[middle]});
  };
  for (Position i = 0; i < size; ++i) {
    ends[i] = i + 1;
    previous[i] = i - 1;  // wraps around for the first part, where it is never read
  }
  for (Position i = 0; i < size; ++i) propose(i);
  while (!candidates.empty()) {
    const Candidate best = candidates.top();
    candidates.pop();
    if (ends[best.left] != best.middle || ends[best.middle] != best.end) continue;
    merge(best.left, best.middle, best.end);
    ends[best.left] = best.end;
    ends[best.middle] = 0;
    if (best.end < size) previous[best.end] = best.left;
    propose(best.left);
    if (best.left > 0) propose(previous[best.left]);
  }
  return ends;
}

}  // namespace plimsoll
