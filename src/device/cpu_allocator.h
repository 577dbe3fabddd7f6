// Stands in for libtorch's CPU allocator while an op runs, and answers what its kernel asks for: an output gets its
// planned place, scratch comes from the op's planned workspace, and what was not planned is counted.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace plimsoll {

/// One op's allocations. `begin` and `end` are called around every op by the thread that runs it.
class AllocationFrame {
 public:
  AllocationFrame();  // puts our allocator in libtorch's place on first use in a process
  ~AllocationFrame();
  AllocationFrame(const AllocationFrame&) = delete;
  AllocationFrame& operator=(const AllocationFrame&) = delete;

  struct Output {
    size_t bytes;
    void* place;
    bool taken = false;
  };

  /// What one op took beyond its outputs.
  struct Usage {
    int64_t workspace_bytes = 0;  ///< scratch, laid out first-fit: the planned workspace that would have held it all
    int64_t outside_bytes = 0;    ///< the part of it that came from the machine's heap, at the op's peak
    int64_t beside_bytes = 0;     ///< the most that other threads took from the heap at a time meanwhile
    bool escaped = false;         ///< some of it outlived the op, on the heap: a kernel keeps it
    bool escaped_arena = false;   ///< the same in the arena, where others will write over it
  };

  /// From here to end(), this thread's requests belong to the op.
  void begin(std::vector<Output>&& outputs, std::byte* workspace, int64_t workspace_bytes);
  Usage end();

  /// The most heap bytes at a time that were taken while ops ran. Of the whole process: what other threads of the
  /// program take from libtorch meanwhile is counted as well.
  static int64_t outside_peak();
  static void reset_outside_peak();

 private:
  friend class CountingAllocator;
  struct Block {
    int64_t offset;
    int64_t bytes;
    void* address;
    bool from_heap;
  };
  void* claim_output(size_t bytes);
  int64_t find_gap(int64_t bytes) const;
  void add_block(const Block& block);
  bool lent(void* address) const;
  void release(void* address);

  std::vector<Output> outputs_;
  std::byte* workspace_ = nullptr;
  int64_t workspace_bytes_ = 0;
  std::vector<Block> blocks_;  // live scratch, by offset
  int64_t high_water_ = 0;
  int64_t outside_ = 0, outside_high_ = 0, beside_at_start_ = 0;
};

}  // namespace plimsoll
