// The fast stage of placement: boxes in a given order, each at the lowest offset (or in the tightest gap) that is free.
#pragma once

#include <cstdint>
#include <limits>
#include <span>
#include <vector>

#include "plan/placement/placement_kernel.h"

namespace plimsoll::placing {

/// Offsets of a kernel's boxes, above its base.
struct KernelPlacement {
  std::vector<int64_t> offsets;
  int64_t height = std::numeric_limits<int64_t>::max();
};

/// Which of the free gaps a box takes.
enum class Gap : uint8_t { lowest, tightest };

/// The boxes placed so far, sorted by offset, in chunks of 64: what can be skipped is skipped by the chunk, what cannot
/// is compared without branches.
class Shelves {
 public:
  /// The offset that a box of this size and lifetime gets; `*work` grows by the chunks looked at.
  int64_t find(const Box& box, Gap gap, int64_t* work) const;
  void insert(const Box& box, int64_t offset);
  void clear();

 private:
  static constexpr int capacity = 64;
  struct Chunk {
    int32_t first[capacity];  ///< unused places: never live
    int32_t last[capacity];
    int64_t offset[capacity];
    int64_t top[capacity];
    int count = 0;
    int32_t earliest = std::numeric_limits<int32_t>::max();  ///< the least first
    int32_t latest = 0;                                      ///< the greatest last
    int64_t highest = 0;                                     ///< the greatest top

    Chunk();
    void insert_at(int place, const Box& box, int64_t at);
  };
  int32_t new_chunk();

  std::vector<Chunk> chunks_;
  std::vector<int32_t> sorted_;  ///< indices of chunks, by offset
  std::vector<int64_t> lowest_;  ///< the least offset of each, in the same order
  size_t used_ = 0;              ///< chunks taken of chunks_
};

/// Places the boxes in `order`. Gives up as soon as a top passes `give_up_above`: the height is then INT64_MAX.
KernelPlacement first_fit(const Kernel& kernel, std::span<const int32_t> order, Gap gap, int64_t give_up_above,
                          Shelves* shelves, int64_t* work);

/// The best of first fit in several orders (by size, lifetime, area, contention, birth), tried until one is at most
/// `goal` high. `*work` grows by the steps taken.
KernelPlacement best_first_fit(const Kernel& kernel, int64_t goal, int64_t* work);

/// For each box, the greatest load among its sections: how crowded its life is.
std::vector<int64_t> contention(const Kernel& kernel);

}  // namespace plimsoll::placing
