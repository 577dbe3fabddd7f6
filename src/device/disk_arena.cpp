#include "device/disk_arena.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <ctime>
#include <string>
#include <utility>
#include <vector>

#include "base/file_error.h"
#include "device/arena.h"
#include "plimsoll/bytes.h"
#include "plimsoll/error.h"

namespace plimsoll {
namespace {

// A scope that holds back the signal for a file that grows beyond its user's limit (ulimit -f). The signal would end
// the program; the error is reported instead.
class WithoutFileSizeSignal {
 public:
  WithoutFileSizeSignal() {
    sigset_t pending;
    sigpending(&pending);
    was_pending_ = sigismember(&pending, SIGXFSZ) == 1;
    sigemptyset(&signal_);
    sigaddset(&signal_, SIGXFSZ);
    pthread_sigmask(SIG_BLOCK, &signal_, &before_);
  }
  ~WithoutFileSizeSignal() {
    const timespec at_once{};
    if (!was_pending_) sigtimedwait(&signal_, nullptr, &at_once);
    pthread_sigmask(SIG_SETMASK, &before_, nullptr);
  }
  WithoutFileSizeSignal(const WithoutFileSizeSignal&) = delete;
  WithoutFileSizeSignal& operator=(const WithoutFileSizeSignal&) = delete;

 private:
  sigset_t signal_{}, before_{};
  bool was_pending_ = false;
};

}  // namespace

DiskArena::DiskArena(std::filesystem::path folder, int64_t bytes, int64_t max_bytes) : folder_(std::move(folder)) {
  if (folder_.empty()) folder_ = ".";
  std::string name = (folder_ / "plimsoll-XXXXXX").string();
  descriptor_ = mkostemp(name.data(), O_CLOEXEC);
  if (descriptor_ < 0)
    throw UserError(fmt::format("no file can be made in '{}' for what is moved to disk: {}; name another folder in "
                                "disk_path",
                                folder_.string(), std::strerror(errno)),
                    kind_of_file_error(errno));
  unlink(name.c_str());
  // Addresses cost nothing, so more are reserved.
  reserved_ = std::max(2 * whole_pages(bytes) + GiB, whole_pages(max_bytes) + page_bytes());
  void* address = mmap(nullptr, reserved_, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (address == MAP_FAILED) {
    ::close(descriptor_);
    throw MemoryUnavailable(
        fmt::format("the machine has no address space for {} of disk: {}", format_bytes(bytes), std::strerror(errno)),
        bytes);
  }
  data_ = static_cast<std::byte*>(address);
  guard_.emplace(address, static_cast<size_t>(reserved_), descriptor_, /*file_bytes=*/0, /*writable=*/true);
  try {
    grow(bytes);
  } catch (...) {
    close();
    throw;
  }
}

DiskArena::~DiskArena() {
  close();
}

void DiskArena::close() noexcept {
  guard_.reset();  // before another mapping can get the addresses
  munmap(data_, reserved_);
  ::close(descriptor_);
}

void DiskArena::grow(int64_t bytes) {
  if (bytes <= bytes_) return;
  if (whole_pages(bytes) + page_bytes() > reserved_)
    throw UserError(fmt::format("the disk's arena of {} cannot grow to {}", format_bytes(bytes_), format_bytes(bytes)),
                    UserError::Kind::failure);
  require_written();  // a file that was cut short would grow over the loss
  const int64_t before = whole_pages(bytes_), after = whole_pages(bytes);
  const auto refuse = [&](int error) {
    struct statvfs status {};
    const bool known = statvfs(folder_.c_str(), &status) == 0;
    throw DiskUnavailable(folder_.string(), bytes - bytes_,
                          known ? static_cast<int64_t>(status.f_bavail) * static_cast<int64_t>(status.f_frsize) : -1,
                          std::strerror(error));
  };
  // If the file system cannot reserve blocks, posix_fallocate would write them all. So free space is checked first.
  struct statvfs status {};
  if (statvfs(folder_.c_str(), &status) == 0 &&
      static_cast<int64_t>(status.f_bavail) * static_cast<int64_t>(status.f_frsize) < after - before)
    refuse(ENOSPC);
  if (after > before) {
    const WithoutFileSizeSignal quiet;
    if (const int error = posix_fallocate(descriptor_, before, after - before); error != 0) {
      (void)!ftruncate(descriptor_, before);
      refuse(error);
    }
    if (mmap(data_ + before, after - before, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, descriptor_, before) ==
        MAP_FAILED)
      refuse(errno);
    guard_->set_file_bytes(after);
  }
  bytes_ = bytes;
}

void DiskArena::evict(int64_t offset, int64_t bytes, bool written) noexcept {
  // Pages at both ends may contain other buffers too. Their data is not lost; at worst it is read once more.
  const int64_t begin = offset / page_bytes() * page_bytes(), end = std::min(whole_pages(offset + bytes), reserved_);
  if (written && msync(data_ + begin, end - begin, MS_SYNC) != 0) {
    int none = 0;
    write_error_.compare_exchange_strong(none, errno);
    return;  // dropping the pages would restore their old data
  }
  madvise(data_ + begin, end - begin, MADV_DONTNEED);
  posix_fadvise(descriptor_, begin, end - begin, POSIX_FADV_DONTNEED);
}

void DiskArena::require_written() const {
  if (guard_->failed())
    throw UserError(fmt::format("what is moved to disk in '{}' could not be read again: its file was cut short, or the "
                                "disk failed; name another folder in disk_path",
                                folder_.string()),
                    UserError::Kind::failure);
  if (const int error = write_error_; error != 0)
    throw UserError(fmt::format("what is moved to disk in '{}' could not be written: {}; name another folder in "
                                "disk_path",
                                folder_.string(), std::strerror(error)),
                    UserError::Kind::failure);
}

int64_t DiskArena::resident_bytes() const {
  const int64_t pages = whole_pages(bytes_) / page_bytes();
  std::vector<unsigned char> in_memory(pages);
  if (pages == 0 || mincore(data_, whole_pages(bytes_), in_memory.data()) != 0) return 0;
  return page_bytes() * std::ranges::count_if(in_memory, [](unsigned char page) { return page & 1; });
}

}  // namespace plimsoll
