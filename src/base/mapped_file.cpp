#include "base/mapped_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <optional>

#include "base/file_error.h"
#include "base/mapping_guard.h"

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

}  // namespace plimsoll
