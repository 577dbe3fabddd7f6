// What one op's kernel asks an allocator for, and what it is given: outputs their planned places, scratch the op's
// planned workspace. What was not planned is counted. Each device's allocator asks the frame first.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace plimsoll {

/// Limits the scratch that each op of this thread takes outside the arena while it lives: an allocation beyond it
/// throws, and the op fails. Scratch that a kernel's other threads allocate does not count. The innermost limit holds.
class ScratchLimit {
 public:
  explicit ScratchLimit(int64_t bytes);
  ~ScratchLimit();
  ScratchLimit(const ScratchLimit&) = delete;
  ScratchLimit& operator=(const ScratchLimit&) = delete;

  /// Whether an op asked for more. A kernel may catch what an allocation throws, and take another way.
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

  /// What one op took beyond its outputs.
  struct Usage {
    int64_t workspace_bytes = 0;  ///< scratch, laid out first-fit: the planned workspace that would have held it all
    int64_t outside_bytes = 0;    ///< the part of it that came from elsewhere than the arena, at the op's peak
    int64_t beside_bytes = 0;     ///< the most that other threads took elsewhere at a time meanwhile
    bool escaped = false;         ///< some of it outlived the op, outside the arena: a kernel keeps it
    bool escaped_arena = false;   ///< the same in the arena, where others will write over it
  };

  /// Forgets the op before. `alignment`: of scratch, bytes.
  void begin(const std::vector<Output>& outputs, std::byte* workspace, int64_t workspace_bytes, int64_t alignment = 64);
  /// Without beside_bytes, which only the allocator knows.
  Usage end() const;

  /// The place for a request: an output's, recognised by its exact size, or planned scratch. nullptr: there is none;
  /// the caller takes memory elsewhere and says so. Throws where a ScratchLimit forbids that.
  void* place_for(size_t bytes);
  void taken_outside(void* address, size_t bytes);
  /// Scratch is given back. False: it is none of the frame's.
  bool release(void* address);
  /// Whether an address was given by place_for().
  bool lent(void* address) const;

 private:
  struct Block {
    int64_t offset;
    int64_t bytes;
    void* address;
    bool outside;
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
  int64_t outside_ = 0, outside_high_ = 0;
};

}  // namespace plimsoll
