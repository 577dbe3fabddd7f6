#include "base/mapped_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <optional>
#include <utility>

#include "base/file_error.h"
#include "base/mapping_guard.h"

namespace plimsoll {

struct MappedFile::Mapping {
  Mapping(std::filesystem::path name, void* begin, size_t bytes)
      : path(std::move(name)), address(begin), size(bytes), guard(std::in_place, begin, bytes) {}
  ~Mapping() {
    guard.reset();  // before another mapping can get the addresses
    ::munmap(address, size);
  }
  Mapping(const Mapping&) = delete;
  Mapping& operator=(const Mapping&) = delete;

  std::filesystem::path path;
  void* address;
  size_t size;
  std::optional<MappingGuard> guard;
};

MappedFile MappedFile::open(const std::filesystem::path& path) {
  // O_NONBLOCK: a pipe with the file's name is refused below instead of blocking.
  const int descriptor = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (descriptor < 0) throw_file_error("read", path, errno);
  struct stat status {};
  void* address = MAP_FAILED;
  int error = ::fstat(descriptor, &status) == 0 ? 0 : errno;
  const bool regular = S_ISREG(status.st_mode);
  const auto size = static_cast<size_t>(status.st_size);
  if (error == 0 && regular && size > 0) {
    address = ::mmap(nullptr, size, PROT_READ, MAP_PRIVATE, descriptor, 0);
    if (address == MAP_FAILED) error = errno;
  }
  ::close(descriptor);
  if (error != 0) throw_file_error("read", path, error);
  if (!regular)
    throw UserError(fmt::format("cannot read {}: it is not a regular file", path.string()), UserError::Kind::failure);
  MappedFile file;
  if (size == 0) return file;
  file.mapping_ = std::make_shared<const Mapping>(path, address, size);
  file.bytes_ = static_cast<const std::byte*>(address);
  file.size_ = status.st_size;
  return file;
}

void MappedFile::require_whole() const {
  if (mapping_ != nullptr && mapping_->guard->failed())
    throw UserError(
        fmt::format("cannot read {}: it had {} bytes when it was opened, and has lost some of them while it "
                    "was read; restore the file, and let no program write it meanwhile",
                    mapping_->path.string(), size_),
        UserError::Kind::failure);
}

void MappedFile::release_pages(std::span<const std::byte> part) {
  const auto page = static_cast<uintptr_t>(::sysconf(_SC_PAGESIZE));
  const auto begin = (reinterpret_cast<uintptr_t>(part.data()) + page - 1) / page * page;
  const auto end = reinterpret_cast<uintptr_t>(part.data() + part.size()) / page * page;
  // Has no effect if the system ignores the hint.
  if (begin < end) ::madvise(reinterpret_cast<void*>(begin), end - begin, MADV_DONTNEED);  // NOLINT: an address
}

}  // namespace plimsoll
