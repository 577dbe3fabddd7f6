// Declares the two parts of the data, and the order in which samples of a part are visited: a permutation, or
// numbers at even distances.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

namespace plimsoll {

/// A part of the data: training, or held out for evaluation.
enum class Split : uint8_t { train, validation };

/// The longest order that is kept as a list. The list's order is the one that every earlier release gave.
inline constexpr int64_t kMaxListedWindows = (int64_t{1} << 24) - 1;

/// An endless order: positions 0, 1, 2, … run over all epochs. Epoch e is positions [e * count, (e + 1) * count) and
/// visits each window once. Its order depends on (count, seed, e) alone, not on the machine, the number of threads or
/// the position at which a job resumes. Any thread may call.
class WindowOrder {
 public:
  /// `count` is 1 to 2^32 windows. Without `shuffle` each epoch is 0, 1, …, count - 1. Memory: a shuffled order of at
  /// most kMaxListedWindows windows keeps a list of 4 bytes a window for each of the last two requested epochs. A
  /// longer order is computed window by window (IndexPermutation) and keeps no list.
  WindowOrder(int64_t count, uint64_t seed, bool shuffle);

  /// Returns the window at `position`, which is at least 0.
  int64_t index(int64_t position) const;

  int64_t epoch(int64_t position) const;
  int64_t count() const { return count_; }

 private:
  using Permutation = std::vector<uint32_t>;
  uint64_t key_of(int64_t epoch) const;
  std::shared_ptr<const Permutation> permutation(int64_t epoch) const;

  struct Cached {
    int64_t epoch = -1;
    std::shared_ptr<const Permutation> order;
  };

  int64_t count_;
  uint64_t seed_;
  bool shuffle_;
  mutable std::mutex mutex_;
  mutable Cached cached_[2];  // by parity of the epoch: at an epoch's end, loader threads use both epochs at the same
                              // time
};

/// A bijection of [0, count) onto itself, in constant memory for any count: a Feistel network of 8 half rounds over the
/// smallest power of two that is not below `count`. A result at or above `count` goes through the network again, until
/// one is below (cycle walking; Black and Rogaway, "Ciphers with arbitrary finite domains", 2002). A number passes the
/// network fewer than 2 times on average. The result depends on (count, key) alone, on every machine.
class IndexPermutation {
 public:
  /// `count` is 1 to 2^62.
  IndexPermutation(int64_t count, uint64_t key);

  /// Returns the image of `index`, which is in [0, count).
  int64_t operator()(int64_t index) const;

 private:
  uint64_t once(uint64_t number) const;

  static constexpr int kHalfRounds = 8;
  uint64_t count_;
  int low_bits_ = 0;  // bits of the network's two parts; their sum is the domain's bits
  int high_bits_ = 0;
  std::array<uint64_t, kHalfRounds> keys_;
};

/// Returns at most `most` of the numbers in [0, count), ascending and evenly spread, and at least one if `count` is
/// above 0. `most` is below 2^31.
inline std::vector<int64_t> evenly_spread(int64_t count, int64_t most) {
  const int64_t taken = std::min(count, std::max<int64_t>(1, most));
  std::vector<int64_t> numbers;
  numbers.reserve(static_cast<size_t>(std::max<int64_t>(0, taken)));
  for (int64_t i = 0; i < taken; ++i)
    numbers.push_back(i * (count / taken) + i * (count % taken) / taken);  // i * count / taken without overflow
  return numbers;
}

}  // namespace plimsoll
