#include "device/cuda/pinned_arena.h"

#include <cuda_runtime_api.h>
#include <fmt/format.h>
#include <unistd.h>

#include "plimsoll/bytes.h"
#include "plimsoll/error.h"

namespace plimsoll::cuda {

PinnedArena::PinnedArena(int64_t bytes, int64_t most) : arena_(bytes, most) {
  lock_pages();
}

PinnedArena::~PinnedArena() {
  for (std::byte* const range : ranges_) cudaHostUnregister(range);
}

void PinnedArena::grow(int64_t bytes) {
  arena_.grow(bytes);
  lock_pages();
}

// Whole pages: the arena ends with one.
void PinnedArena::lock_pages() {
  const int64_t page = sysconf(_SC_PAGESIZE), wanted = (arena_.bytes() + page - 1) / page * page;
  if (wanted <= locked_) return;
  std::byte* const begin = arena_.data() + locked_;
  if (const cudaError_t error = cudaHostRegister(begin, static_cast<size_t>(wanted - locked_), cudaHostRegisterDefault);
      error != cudaSuccess) {
    cudaGetLastError();
    throw MemoryUnavailable(fmt::format("{} of host memory cannot be locked for the device's copies ({}); allow this "
                                        "program more (ulimit -l, or memlock of its container), or lower "
                                        "host_memory_budget",
                                        format_bytes(arena_.bytes()), cudaGetErrorString(error)),
                            arena_.bytes());
  }
  ranges_.push_back(begin);
  locked_ = wanted;
}

}  // namespace plimsoll::cuda
