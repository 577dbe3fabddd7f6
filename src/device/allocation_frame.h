// Declares the frame that an allocator asks while one op's kernel runs. Outputs get their planned addresses, scratch
// gets the op's planned workspace. Allocations that were not planned are counted. Each device's allocator asks the
// frame first.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace plimsoll {

/// A limit on the scratch that each op of this thread allocates outside the arena, for its lifetime. An allocation
/// beyond it throws, and the op fails. Scratch that a kernel's other threads allocate does not count. The innermost
/// limit holds.
class ScratchLimit {
 public:
  explicit ScratchLimit(int64_t bytes);
  ~ScratchLimit();
  ScratchLimit(const ScratchLimit&) = delete;
  ScratchLimit& operator=(const ScratchLimit&) = delete;

  /// Returns true if an op requested more. A kernel may catch what an allocation throws and use another algorithm.
  bool exceeded() const { return exceeded_; }

  /// Throws std::runtime_error if a limit of this thread is less than `bytes`.
  static void require(int64_t bytes);

 private:
  int64_t bytes_;
  bool exceeded_ = false;
  ScratchLimit* before_;
};

class AllocationFrame {
 public:
  struct Output {
    size_t bytes;
    void* place;
    bool taken = false;
  };

  /// Memory that one op allocated in addition to its outputs.
  struct Usage {
    int64_t workspace_bytes = 0;  ///< scratch, placed first-fit: bytes of the planned workspace that would have held it
                                  ///< all
    int64_t out_of_arena_bytes = 0;  ///< the part of it allocated outside the arena, at the op's peak
    int64_t other_thread_bytes = 0;  ///< the largest number of bytes that other threads allocated outside the arena at
                                     ///< one time during the op
    bool escaped = false;            ///< scratch outside the arena outlived the op: a kernel keeps it
    bool escaped_arena = false;      ///< scratch in the arena outlived the op; other buffers will overwrite it
  };

  /// Begins an op and forgets the previous one. `alignment` of scratch is in bytes.
  void begin(const std::vector<Output>& outputs, std::byte* workspace, int64_t workspace_bytes, int64_t alignment = 64);
  /// Returns the op's usage, except other_thread_bytes, which only the allocator knows.
  Usage end() const;

  /// Returns an address for a request: an output's, recognized by its exact size, or planned scratch. Returns nullptr
  /// if there is none; the caller then allocates memory outside the arena and reports it with add_out_of_arena().
  /// Throws if a ScratchLimit forbids that.
  void* place_for(size_t bytes);
  void add_out_of_arena(void* address, size_t bytes);
  /// Frees scratch. Returns false if the address is not the frame's.
  bool release(void* address);
  /// Returns true if place_for() returned the address.
  bool lent(void* address) const;

 private:
  struct Block {
    int64_t offset;
    int64_t bytes;
    void* address;
    bool out_of_arena;
  };
  int64_t rounded(size_t bytes) const;
  int64_t find_gap(int64_t bytes) const;
  void add_block(const Block& block);

  std::vector<Output> outputs_;
  std::byte* workspace_ = nullptr;
  int64_t workspace_bytes_ = 0;
  int64_t alignment_ = 64;
  std::vector<Block> blocks_;  // live scratch, by offset
  int64_t high_water_ = 0;
  int64_t out_of_arena_bytes_ = 0, out_of_arena_peak_ = 0;
};

}  // namespace plimsoll
