// Declares moves of byte ranges that happen as if at the same time: new ranges may overlap old ranges, in any
// permutation.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "device/backend.h"

namespace plimsoll {

/// Unit in bytes of moves in a cycle of ranges: the alignment of the arenas.
constexpr int64_t kRelocationUnit = 64;

/// Returns an upper bound of the bytes that relocate_on_host() allocates to move `bytes` bytes.
constexpr int64_t relocation_scratch_bytes(int64_t bytes) {
  return bytes / kRelocationUnit / 8 + 1;
}

/// Makes all of `relocations` on the host, as Backend::relocate. The old range of a move may overlap the new ranges of
/// others, and its own.
void relocate_on_host(std::vector<Relocation> relocations);

/// Makes all of `relocations` if the host reaches the memory by copies only: `read` copies from an address to the host,
/// `write` back. The host holds ranges that form a cycle during the move; it holds other ranges one piece at a time.
void relocate_by_copies(std::vector<Relocation> relocations,
                        const std::function<void(void* to, const std::byte* from, int64_t bytes)>& read,
                        const std::function<void(std::byte* to, const void* from, int64_t bytes)>& write);

}  // namespace plimsoll
