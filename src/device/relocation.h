// Declares moves of byte ranges that happen as if at the same time: new ranges may overlap old ranges, in any
// permutation.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "device/backend.h"

namespace plimsoll {

/// Unit in bytes of moves in a cycle of ranges: the alignment of the arenas.
constexpr int64_t kMoveUnit = 64;

/// Returns an upper bound of the bytes that move_on_host() allocates to move `bytes` bytes.
constexpr int64_t scratch_of_moves(int64_t bytes) {
  return bytes / kMoveUnit / 8 + 1;
}

/// Makes all of `moves` on the host, as Backend::move_all. The old range of a move may overlap the new ranges of
/// others, and its own.
void move_on_host(std::vector<ByteMove> moves);

/// Makes all of `moves` if the host reaches the memory by copies only: `read` copies from an address to the host,
/// `write` back. The host holds ranges that form a cycle during the move; it holds other ranges one piece at a time.
void move_by_copies(std::vector<ByteMove> moves,
                    const std::function<void(void* to, const std::byte* from, int64_t bytes)>& read,
                    const std::function<void(std::byte* to, const void* from, int64_t bytes)>& write);

}  // namespace plimsoll
