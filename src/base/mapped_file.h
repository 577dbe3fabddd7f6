// Declares a file mapped into memory for reading, and the guard that turns the loss of a mapped file's bytes into an
// error at the next check.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <span>

namespace plimsoll {

/// A mapped file, read from the disk when its pages are accessed. If AtomicFile replaces the file, an open mapping
/// keeps the old contents. If another program cuts the file short, bytes read as 0 (MappingGuard), and require_whole()
/// throws. The file's descriptor stays open as long as a copy of the object lives.
class MappedFile {
 public:
  /// Throws FileError: usage if the file is missing, unreadable or not a regular file, failure if it cannot be mapped.
  /// An empty file has no bytes.
  static MappedFile open(const std::filesystem::path& path);

  const std::byte* data() const { return bytes_; }
  int64_t size() const { return size_; }

  /// Throws UserError (failure) that names the file if it has lost bytes since open(). Readers call it after they have
  /// taken their last byte, and before they use what they have read. A span or a view into the file is not taken until
  /// its bytes were copied or used: its reader calls it after that.
  void require_whole() const;
  /// Returns false if require_whole() would throw.
  bool is_whole() const;

  /// Returns the memory pages of `part` to the system, except pages that it shares with neighboring bytes. A later
  /// access reads them from the disk again.
  static void release_pages(std::span<const std::byte> part);

  /// Calls `take` with the pieces of `part`, of 2 MiB, from front to back, and releases the pages of each afterwards:
  /// no more of the part is resident at a time.
  template <typename Take>
  static void for_each_piece(std::span<const std::byte> part, const Take& take) {
    constexpr size_t kPiece = size_t{2} << 20;
    for (std::span<const std::byte> rest = part; !rest.empty();) {
      const std::span<const std::byte> piece = rest.first(std::min(kPiece, rest.size()));
      take(piece);
      release_pages(piece);
      rest = rest.subspan(piece.size());
    }
  }

 private:
  struct Mapping;
  std::shared_ptr<const Mapping> mapping_;
  const std::byte* bytes_ = nullptr;
  int64_t size_ = 0;
};

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
