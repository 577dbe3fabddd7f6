// Bytes that change their places all at once: ranges may lie over each other's old places, in any permutation.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace plimsoll {

/// `bytes` from one place to another. Both start at, and `bytes` is, a multiple of kMoveUnit.
struct ByteMove {
  std::byte* from = nullptr;
  std::byte* to = nullptr;
  int64_t bytes = 0;
};

/// What is moved at a time where ranges go round in circles: the arenas' alignment.
constexpr int64_t kMoveUnit = 64;

/// What move_all() takes beside the ranges themselves at the most, if `bytes` are moved.
constexpr int64_t scratch_of_moves(int64_t bytes) {
  return bytes / kMoveUnit / 8 + 1;
}

/// Carries out all of `moves`, as if by a copy of everything. No two may have a byte of their old places in common, nor
/// of their new ones; an old place of one may overlap the new places of others, and its own.
void move_all(std::vector<ByteMove> moves);

}  // namespace plimsoll
