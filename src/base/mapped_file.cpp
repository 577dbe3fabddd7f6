#include "base/mapped_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>

#include "base/file_error.h"

namespace plimsoll {

MappedFile MappedFile::open(const std::filesystem::path& path) {
  // O_NONBLOCK: a pipe in the file's place is refused below instead of waited for.
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
  file.bytes_ = {static_cast<const std::byte*>(address),
                 [address, size](const std::byte*) { ::munmap(address, size); }};
  file.size_ = status.st_size;
  return file;
}

void MappedFile::let_go(std::span<const std::byte> part) {
  const auto page = static_cast<uintptr_t>(::sysconf(_SC_PAGESIZE));
  const auto begin = (reinterpret_cast<uintptr_t>(part.data()) + page - 1) / page * page;
  const auto end = reinterpret_cast<uintptr_t>(part.data() + part.size()) / page * page;
  // Of no effect where the system does not take the hint.
  if (begin < end) ::madvise(reinterpret_cast<void*>(begin), end - begin, MADV_DONTNEED);  // NOLINT: an address
}

}  // namespace plimsoll
