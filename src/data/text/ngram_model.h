// Declares a language model that counts: n-grams with interpolated modified Kneser-Ney smoothing.
//
// Source of the formulas: Chen and Goodman, "An empirical study of smoothing techniques for language modeling" (Harvard
// TR-10-98, 1998), section 3. For a context c of k - 1 tokens and c' without its first token:
//
//     P(w | c) = max(0, n(c w) - D(n(c w))) / n(c) + (D1 N1(c) + D2 N2(c) + D3 N3(c)) / n(c) * P(w | c')
//
// n of the highest order counts occurrences; n of a lower order counts the different tokens before the n-gram. N1, N2
// and N3 are the tokens that follow c once, twice, and at least three times. Below the first order each token has the
// same probability.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <span>
#include <utility>
#include <vector>

namespace plimsoll {

/// A hash table from 64-bit keys to 32-bit values, for at most 2^32 - 2 entries. It holds 12 bytes a slot.
class NgramTable {
 public:
  /// Returns the value of `key`, and whether the call has added it with `value_if_new`.
  std::pair<uint32_t*, bool> find_or_add(uint64_t key, uint32_t value_if_new);
  /// Returns nullptr if there is no such key.
  const uint32_t* find(uint64_t key) const;
  size_t size() const { return size_; }
  /// Upper bound of the bytes while `more` keys are added one by one.
  size_t peak_bytes_with(size_t more) const;
  /// Calls each(key, value) for every entry.
  template <typename Each>
  void for_each(Each each) const {
    for (size_t i = 0; i < keys_.size(); ++i)
      if (keys_[i] != kFree) each(keys_[i], values_[i]);
  }

 private:
  static constexpr uint64_t kFree = ~uint64_t{0};
  size_t slot_of(uint64_t key) const;
  void grow();
  static size_t slots_for(size_t entries);

  std::vector<uint64_t> keys_;
  std::vector<uint32_t> values_;
  size_t size_ = 0;
};

/// An n-gram model of texts that are added piece by piece. An n-gram does not cross the border of two pieces. Only one
/// thread may use it while it counts.
class NgramModel {
 public:
  static constexpr int kMaxOrder = 8;

  /// `vocabulary`: tokens are in [0, vocabulary), at most 2^31. `order`: 1 to kMaxOrder tokens of the longest n-gram.
  NgramModel(int64_t vocabulary, int order);

  /// Upper bound of the bytes while a piece of `tokens` tokens is counted.
  size_t peak_bytes_with(size_t tokens) const;

  /// Counts the n-grams of a piece. Throws InternalError after finish().
  void count(std::span<const int64_t> piece);

  /// Estimates the discounts and sums the counts after each context. At least one n-gram of two tokens was counted.
  void finish();

  /// Returns the probability, above 0, of `token` after the last order - 1 tokens of `context`, or all if there are
  /// fewer. Needs finish().
  double probability(std::span<const int64_t> context, int64_t token) const;

  /// Returns the discounts D1, D2 and D3 of the n-grams of `length` tokens. If a count of counts is 0, they are 0.5, 1
  /// and 1.5.
  std::span<const double, 3> discounts(int length) const;

 private:
  // A node is an n-gram of fewer than order tokens; node 0 is the empty one.
  struct Node {
    uint32_t length = 0;                                        // tokens
    uint32_t count = 0;                                         // different tokens before it
    uint32_t total = 0;                                         // sum of the counts of the tokens that follow it
    uint32_t follows_once = 0, follows_twice = 0, follows = 0;  // different tokens after it
  };

  int64_t vocabulary_;
  int order_;
  bool finished_ = false;
  std::deque<Node> nodes_;         // grows without a copy
  NgramTable inner_;               // (node, token) -> node of one token more
  NgramTable whole_;               // (node of order - 1 tokens, token) -> occurrences
  std::vector<double> discounts_;  // three for each length
};

}  // namespace plimsoll
