// Declares the two parts of the data, and the order in which samples of a part are visited.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

namespace plimsoll {

/// A part of the data: trained on, or held out for evaluation.
enum class Split : uint8_t { train, validation };

/// The longest order that is kept as a list. The list's order is the one that every earlier release gave.
inline constexpr int64_t kMaxListedWindows = (int64_t{1} << 24) - 1;

/// Positions 0, 1, 2, … run over all epochs; epoch e is positions [e * count, (e + 1) * count) and visits each window
/// once, in an order that depends on (count, seed, e) alone: not on the machine, the number of threads or where a
/// resumed job starts. Calls may come from any thread.
class WindowOrder {
 public:
  /// `count` is 1 to 2^32 windows. Without `shuffle` each epoch is 0, 1, …, count - 1. Memory: a shuffled order of at
  /// most kMaxListedWindows windows keeps a list of 4 bytes a window for each of the last two epochs asked for. A
  /// longer order is computed window by window (IndexPermutation) and keeps no list.
  WindowOrder(int64_t count, uint64_t seed, bool shuffle);

  /// The window at `position` (from 0 on).
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
  mutable Cached cached_[2];  // by parity of the epoch: loader threads stand on both sides of an epoch's end at once
};

}  // namespace plimsoll
