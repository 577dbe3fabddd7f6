// Declares the two parts of the data, and the order in which samples of a part are visited.
#pragma once

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

}  // namespace plimsoll
