// Declares a guard that turns the loss of a mapped file's bytes into an error at the next check.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

namespace plimsoll {

/// A guard of a range of addresses that maps a file. If a page of it cannot be read (another program has cut the file
/// short, or its disk fails), the system sends SIGBUS, which ends a program. Here the page and all after it become
/// zeros, failed() becomes true, and the thread goes on. Every reader checks failed() after it has read, and before it
/// uses the data. The process has one handler, which is set by the first guard; other addresses go to the handler that
/// was there before. Safe from any thread.
class MappingGuard {
 public:
  /// Guards [address, address + bytes), which is mapped and starts at a page. `writable`: the zeros may be written.
  MappingGuard(const void* address, size_t bytes, bool writable = false);
  ~MappingGuard();
  MappingGuard(const MappingGuard&) = delete;
  MappingGuard& operator=(const MappingGuard&) = delete;

  bool failed() const;

 private:
  struct Range;
  friend struct BusErrors;
  Range* range_;
};

}  // namespace plimsoll
