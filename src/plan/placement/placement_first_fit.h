// Declares the fast stages of placement: first fit of boxes in a given order, and repeated first fit, each time with
// the box that exceeded the height placed earlier.
#pragma once

#include <cstdint>
#include <limits>
#include <span>
#include <vector>

#include "plan/placement/placement_kernel.h"

namespace plimsoll::placing {

/// A list of offsets of a kernel's boxes, above its base.
struct KernelPlacement {
  std::vector<int64_t> offsets;
  int64_t height = std::numeric_limits<int64_t>::max();
};

/// Rule for the free gap that a box gets.
enum class Gap : uint8_t { lowest, tightest };

/// A set of the boxes placed so far, sorted by offset, in chunks of 64. Chunks that cannot matter are skipped; the
/// others are compared without branches.
class PlacedBoxes {
 public:
  /// Returns the offset for `box`; `*work` grows by the number of chunks examined.
  int64_t find(const Box& box, Gap gap, int64_t* work) const;
  void insert(const Box& box, int64_t offset);
  void clear();

 private:
  static constexpr int capacity = 64;
  struct Chunk {
    int32_t first[capacity];  ///< unused entries: never live
    int32_t last[capacity];
    int64_t offset[capacity];
    int64_t top[capacity];
    int count = 0;
    int32_t earliest = std::numeric_limits<int32_t>::max();  ///< smallest `first`
    int32_t latest = 0;                                      ///< largest `last`
    int64_t highest = 0;                                     ///< largest `top`

    Chunk();
    void insert_at(int place, const Box& box, int64_t at);
  };
  int32_t new_chunk();

  std::vector<Chunk> chunks_;
  std::vector<int32_t> sorted_;  ///< indices of chunks, by offset
  std::vector<int64_t> lowest_;  ///< smallest offset of each chunk, in the order of sorted_
  size_t used_ = 0;              ///< used chunks of chunks_
};

/// Returns a placement of the boxes in `order`. Stops as soon as a top exceeds `give_up_above`: the height is then
/// INT64_MAX.
KernelPlacement first_fit(const Kernel& kernel, std::span<const int32_t> order, Gap gap, int64_t give_up_above,
                          PlacedBoxes* placed_boxes, int64_t* work);

/// Returns the best first fit over several orders (by size, lifetime, area, contention, birth), until one is at most
/// `goal` high. `*work` grows by the steps taken.
KernelPlacement best_first_fit(const Kernel& kernel, int64_t goal, int64_t* work);

/// Returns for each box the largest load among its sections: how crowded its lifetime is.
std::vector<int64_t> contention(const Kernel& kernel);

/// Lowers `*best` until its height is at most `goal` or `*work_left` is used up, for kernels of any size. It is the
/// middle stage of placement: repeated first fit, each time with the box that exceeded the height placed earlier.
/// `seed` is added to that of the kernel.
void promote(const Kernel& kernel, int64_t goal, KernelPlacement* best, int64_t* work_left, uint64_t seed = 0);

}  // namespace plimsoll::placing
