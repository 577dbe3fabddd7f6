// Declares a guard that turns the loss of a mapped file's bytes into an error at the next check.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>

namespace plimsoll {

/// A guard of a range of addresses that maps a file. Another program may cut the file short, or its disk may fail.
///
/// A page behind the file's new end, or one that the disk fails to read, cannot be read: the system sends SIGBUS, which
/// ends a program. Here the page and all after it become zeros, and the thread goes on. The rest of the page that
/// contains the new end becomes zeros without any signal, and pages that were read before the loss cause no signal
/// either. Therefore the file's size is compared as well.
///
/// failed() reports both. Every reader calls it after it has taken its last byte, and before it uses the data; values
/// that are taken later need another call. A file that is cut and then grows to its size again between two calls can
/// escape notice.
///
/// The process has one handler, which is set by the first guard; other addresses go to the handler that was there
/// before. Safe from any thread.
class MappingGuard {
 public:
  /// Guards [address, address + bytes), which starts at a page. The file `descriptor`, open as long as the guard, has
  /// `file_bytes` bytes that are mapped there. `writable`: the zeros may be written.
  MappingGuard(const void* address, size_t bytes, int descriptor, int64_t file_bytes, bool writable = false);
  ~MappingGuard();
  MappingGuard(const MappingGuard&) = delete;
  MappingGuard& operator=(const MappingGuard&) = delete;

  /// Sets the number of bytes that the file has at least, after it grew.
  void set_file_bytes(int64_t bytes) { file_bytes_ = bytes; }

  /// Returns true if bytes were lost since the guard was made, also at every later call. Takes two system calls, about
  /// half a microsecond.
  bool failed() const;

 private:
  struct Range;
  friend struct BusErrors;
  Range* range_;
  const int descriptor_;
  std::atomic<int64_t> file_bytes_;
};

/// The moments at which tests cut a file: after it was mapped and before a byte is read; before a check, when bytes
/// have been taken; after a check without a loss, before more bytes are taken.
enum class MappingMoment { mapped, check, checked };

/// A function that every guard calls at these moments, for tests only; nullptr: none. `descriptor` is the mapped file.
inline std::atomic<const std::function<void(MappingMoment moment, int descriptor)>*> mapping_hook = nullptr;

}  // namespace plimsoll
