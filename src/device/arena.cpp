#include "device/arena.h"

#include <fmt/format.h>
#include <sys/mman.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "plimsoll/bytes.h"
#include "plimsoll/error.h"

namespace plimsoll {
namespace {

constexpr std::byte kUnwritten{0xff};

}  // namespace

CpuArena::CpuArena(int64_t bytes, int64_t max_bytes) {
  // Addresses cost nothing. Reserve some to grow into if a kernel needs more scratch than was planned.
  reserved_ = std::max(2 * whole_pages(bytes) + GiB, whole_pages(max_bytes) + page_bytes());
  void* address = mmap(nullptr, reserved_, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (address == MAP_FAILED)
    throw MemoryUnavailable(fmt::format("the machine has no address space for an arena of {}: {}", format_bytes(bytes),
                                        std::strerror(errno)),
                            bytes);
  data_ = static_cast<std::byte*>(address);
  madvise(data_, reserved_, MADV_HUGEPAGE);
  try {
    grow(bytes);
  } catch (...) {
    munmap(data_, reserved_);
    throw;
  }
}

CpuArena::~CpuArena() {
  munmap(data_, reserved_);
}

void CpuArena::grow(int64_t bytes) {
  if (bytes <= bytes_) return;
  if (whole_pages(bytes) + page_bytes() > reserved_)
    throw UserError(fmt::format("the arena of {} cannot grow to {}", format_bytes(bytes_), format_bytes(bytes)),
                    UserError::Kind::failure);
  if (mprotect(data_, whole_pages(bytes), PROT_READ | PROT_WRITE) != 0)
    throw MemoryUnavailable(
        fmt::format("the machine has no memory for an arena of {}: {}", format_bytes(bytes), std::strerror(errno)),
        bytes);
  // Every page is touched now, so that a lack of memory shows before the first step, not during a later one.
  std::memset(data_ + bytes_, static_cast<int>(kUnwritten), bytes - bytes_);
  bytes_ = bytes;
}

int64_t CpuArena::touched_bytes() const {
  int64_t end = bytes_;
  while (end > 0 && data_[end - 1] == kUnwritten) --end;
  return end;
}

}  // namespace plimsoll
