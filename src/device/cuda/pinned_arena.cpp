#include "device/cuda/pinned_arena.h"

#include <cuda_runtime_api.h>
#include <fmt/format.h>
#include <unistd.h>

#include "plimsoll/bytes.h"
#include "plimsoll/error.h"

namespace plimsoll::cuda {

PinnedArena::PinnedArena(int64_t bytes, int64_t max_bytes) : arena_(bytes, max_bytes) {
  lock_pages();
}

PinnedArena::~PinnedArena() {
  unlock_pages();
}

void PinnedArena::unlock_pages() noexcept {
  if (locked_ > 0) cudaHostUnregister(arena_.data());
  locked_ = 0;
}

// Must not be called while a copy is in flight.
void PinnedArena::grow(int64_t bytes) {
  arena_.grow(bytes);
  lock_pages();
}

// Locks whole pages, because the arena ends with one, and all of them as one range: a copy must not cross from one
// range into another.
void PinnedArena::lock_pages() {
  const int64_t page = sysconf(_SC_PAGESIZE), wanted = (arena_.bytes() + page - 1) / page * page;
  if (wanted <= locked_) return;
  unlock_pages();
  if (const cudaError_t error = cudaHostRegister(arena_.data(), static_cast<size_t>(wanted), cudaHostRegisterDefault);
      error != cudaSuccess) {
    cudaGetLastError();
    throw MemoryUnavailable(fmt::format("{} of host memory cannot be locked for the device's copies ({})",
                                        format_bytes(arena_.bytes()), cudaGetErrorString(error)),
                            arena_.bytes(),
                            "allow this program more (ulimit -l, or memlock of its container), or lower "
                            "host_memory_budget");
  }
  locked_ = wanted;
}

}  // namespace plimsoll::cuda
