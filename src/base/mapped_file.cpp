#include "base/mapped_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <mutex>
#include <optional>

#include "base/file_error.h"

namespace plimsoll {

struct MappedFile::Mapping {
  Mapping() = default;
  ~Mapping() {
    guard.reset();  // before another mapping can get the addresses
    if (address != MAP_FAILED) ::munmap(address, size);
    if (descriptor >= 0) ::close(descriptor);
  }
  Mapping(const Mapping&) = delete;
  Mapping& operator=(const Mapping&) = delete;

  std::filesystem::path path;
  int descriptor = -1;
  void* address = MAP_FAILED;
  size_t size = 0;
  std::optional<MappingGuard> guard;
};

namespace {

// Twice the number of mappings that Linux allows a process (vm.max_map_count).
constexpr rlim_t kMaxDescriptors = rlim_t{1} << 17;

/// Opens a file for reading; returns -1 and sets errno on failure. Each mapped file holds a descriptor, of which a
/// process may have 1024 by default. When half of them are in use, the limit becomes the largest that needs no
/// privilege, so that other parts of the program do not run out of descriptors.
int open_for_reading(const std::filesystem::path& path) {
  // O_NONBLOCK: a pipe with the file's name is refused later instead of blocking.
  const auto open = [&] { return ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK); };
  const int descriptor = open();
  const int error = errno;
  rlimit limit{};
  if ((descriptor < 0 && error != EMFILE) || ::getrlimit(RLIMIT_NOFILE, &limit) != 0 ||
      (descriptor >= 0 && static_cast<rlim_t>(descriptor) < limit.rlim_cur / 2)) {
    errno = error;
    return descriptor;
  }
  const rlim_t most = std::min(limit.rlim_max, kMaxDescriptors);
  const bool raised = limit.rlim_cur < most && (limit.rlim_cur = most, ::setrlimit(RLIMIT_NOFILE, &limit) == 0);
  if (descriptor < 0 && raised) return open();
  errno = error;
  return descriptor;
}

}  // namespace

MappedFile MappedFile::open(const std::filesystem::path& path) {
  const auto mapping = std::make_shared<Mapping>();
  mapping->path = path;
  mapping->descriptor = open_for_reading(path);
  struct stat status {};
  if (mapping->descriptor < 0 || ::fstat(mapping->descriptor, &status) != 0) throw_file_error("read", path, errno);
  if (S_ISDIR(status.st_mode)) throw_file_error("read", path, EISDIR);
  if (!S_ISREG(status.st_mode)) throw_not_regular(path);
  MappedFile file;
  if (status.st_size == 0) return file;
  mapping->size = static_cast<size_t>(status.st_size);
  mapping->address = ::mmap(nullptr, mapping->size, PROT_READ, MAP_PRIVATE, mapping->descriptor, 0);
  if (mapping->address == MAP_FAILED) throw_file_error("read", path, errno);
  mapping->guard.emplace(mapping->address, mapping->size, mapping->descriptor, status.st_size);
  file.bytes_ = static_cast<const std::byte*>(mapping->address);
  file.size_ = status.st_size;
  file.mapping_ = mapping;
  return file;
}

bool MappedFile::is_whole() const {
  return mapping_ == nullptr || !mapping_->guard->failed();
}

void MappedFile::require_whole() const {
  if (!is_whole()) throw_lost_bytes(mapping_->path, size_);
}

void MappedFile::release_pages(std::span<const std::byte> part) {
  const auto page = static_cast<uintptr_t>(::sysconf(_SC_PAGESIZE));
  const auto begin = (reinterpret_cast<uintptr_t>(part.data()) + page - 1) / page * page;
  const auto end = reinterpret_cast<uintptr_t>(part.data() + part.size()) / page * page;
  // Has no effect if the system ignores the hint.
  if (begin < end) ::madvise(reinterpret_cast<void*>(begin), end - begin, MADV_DONTNEED);  // NOLINT: an address
}

/// An entry of a list that only grows, so that the handler reads it without a lock. Free entries are reused.
struct MappingGuard::Range {
  std::atomic<uintptr_t> begin = 0, end = 0;  // end 0: free
  std::atomic<bool> writable = false;
  std::atomic<bool> failed = false;
  Range* next = nullptr;
};

struct BusErrors {
  using Range = MappingGuard::Range;
  static_assert(std::atomic<uintptr_t>::is_always_lock_free && std::atomic<Range*>::is_always_lock_free,
                "a signal handler takes no lock");

  static inline std::atomic<Range*> first = nullptr;
  static inline std::mutex mutex;  // guards adding and removing entries
  static inline struct sigaction before {};
  static inline uintptr_t page = 4096;

  /// Handles SIGBUS. Calls only functions that a signal handler may call: mmap() is one system call on Linux.
  static void handle(int signal, siginfo_t* info, void* context) {
    const int error = errno;
    const auto at = reinterpret_cast<uintptr_t>(info->si_addr);
    for (Range* range = first.load(); range != nullptr; range = range->next) {
      const uintptr_t end = range->end.load();
      if (end == 0 || at < range->begin.load() || at >= end) continue;
      const uintptr_t from = at / page * page;
      const int rights = PROT_READ | (range->writable.load() ? PROT_WRITE : 0);
      range->failed.store(true);
      void* const zeros = ::mmap(reinterpret_cast<void*>(from), end - from, rights,  // NOLINT: an address
                                 MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED | MAP_NORESERVE, -1, 0);
      errno = error;
      if (zeros != MAP_FAILED) return;
      break;
    }
    if ((before.sa_flags & SA_SIGINFO) != 0 && before.sa_sigaction != nullptr)
      return before.sa_sigaction(signal, info, context);
    if (before.sa_handler != SIG_DFL && before.sa_handler != SIG_IGN) return before.sa_handler(signal);
    // The access is repeated after this, and ends the program as it would without a guard.
    ::signal(SIGBUS, SIG_DFL);
  }

  static void install() {
    static std::once_flag once;
    std::call_once(once, [] {
      page = static_cast<uintptr_t>(::sysconf(_SC_PAGESIZE));
      struct sigaction action {};
      action.sa_sigaction = handle;
      action.sa_flags = SA_SIGINFO | SA_ONSTACK;
      sigemptyset(&action.sa_mask);
      ::sigaction(SIGBUS, &action, &before);
    });
  }
};

namespace {

void call_hook(MappingMoment moment, int descriptor) {
  if (const auto* const hook = mapping_hook.load(std::memory_order_relaxed)) (*hook)(moment, descriptor);
}

/// Returns true if the file has fewer than `bytes` bytes, or its size cannot be read.
bool is_shorter(int descriptor, int64_t bytes) {
  // XFS writes zeros behind the new end before it sets the size, and holds the file's lock meanwhile. A read of no
  // bytes waits for this lock. Other file systems set the size first.
  char none = 0;
  (void)!::pread(descriptor, &none, 0, 0);
  struct stat status {};
  return ::fstat(descriptor, &status) != 0 || status.st_size < bytes;
}

}  // namespace

MappingGuard::MappingGuard(const void* address, size_t bytes, int descriptor, int64_t file_bytes, bool writable)
    : descriptor_(descriptor), file_bytes_(file_bytes) {
  BusErrors::install();
  {
    const std::lock_guard lock(BusErrors::mutex);
    range_ = BusErrors::first.load();
    while (range_ != nullptr && range_->end.load() != 0) range_ = range_->next;
    const bool is_new = range_ == nullptr;
    if (is_new) range_ = new Range;  // never freed: a handler may be reading it
    range_->failed = false;
    range_->writable = writable;
    range_->begin = reinterpret_cast<uintptr_t>(address);
    range_->end =
        (reinterpret_cast<uintptr_t>(address) + bytes + BusErrors::page - 1) / BusErrors::page * BusErrors::page;
    if (is_new) {
      range_->next = BusErrors::first.load();
      BusErrors::first = range_;
    }
  }
  call_hook(MappingMoment::mapped, descriptor);
}

MappingGuard::~MappingGuard() {
  const std::lock_guard lock(BusErrors::mutex);
  range_->end = 0;
}

bool MappingGuard::failed() const {
  call_hook(MappingMoment::check, descriptor_);
  if (range_->failed.load()) return true;
  if (is_shorter(descriptor_, file_bytes_)) {
    range_->failed.store(true);  // the file may grow again
    return true;
  }
  call_hook(MappingMoment::checked, descriptor_);
  return false;
}

}  // namespace plimsoll
