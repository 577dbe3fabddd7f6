// Bytes that change their places all at once: ranges may lie over each other's old places, in any permutation.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "device/backend.h"

namespace plimsoll {

/// What is moved at a time where ranges go round in circles: the arenas' alignment.
constexpr int64_t kMoveUnit = 64;

/// What move_on_host() takes beside the ranges themselves at the most, if `bytes` are moved.
constexpr int64_t scratch_of_moves(int64_t bytes) {
  return bytes / kMoveUnit / 8 + 1;
}

/// Carries out all of `moves` by the host, as Backend::move_all: an old place of one may overlap the new places of
/// others, and its own.
void move_on_host(std::vector<ByteMove> moves);

/// The same where the host reaches the memory by copies only: `read` copies from a place to the host, `write` back.
/// What goes round in circles is held by the host meanwhile, all else a piece at a time.
void move_by_copies(std::vector<ByteMove> moves,
                    const std::function<void(void* to, const std::byte* from, int64_t bytes)>& read,
                    const std::function<void(std::byte* to, const void* from, int64_t bytes)>& write);

}  // namespace plimsoll
