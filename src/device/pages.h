// Computes sizes in pages of memory.
#pragma once

#include <unistd.h>

#include <cstdint>

namespace plimsoll {

inline int64_t page_bytes() {
  static const int64_t bytes = sysconf(_SC_PAGESIZE);
  return bytes;
}

/// Returns `bytes`, rounded up to whole pages.
inline int64_t whole_pages(int64_t bytes) {
  return (bytes + page_bytes() - 1) / page_bytes() * page_bytes();
}

}  // namespace plimsoll
