#include "device/compiled_cache.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <span>

#include "base/atomic_file.h"
#include "base/content_hash.h"
#include "plimsoll/error.h"

namespace plimsoll {
namespace {

// Header before the code. The key is long, so it is stored as two hashes and its length.
struct Header {
  char magic[16] = "plimsoll code 1";
  uint64_t key_hash = 0;
  uint64_t key_check = 0;
  uint64_t key_bytes = 0;
  uint64_t code_bytes = 0;
  uint64_t code_hash = 0;
};
static_assert(std::is_trivially_copyable_v<Header> && sizeof(Header) == 56);

constexpr uint64_t kMaxCodeBytes = 64 << 20;

uint64_t hash_of(std::string_view text) {
  return content_hash(std::as_bytes(std::span(text)));
}

Header header_of(std::string_view key, const std::vector<std::byte>& code) {
  Header header;
  header.key_hash = hash_of(key);
  header.key_check = hash_of(std::string(key) + "\n");
  header.key_bytes = key.size();
  header.code_bytes = code.size();
  header.code_hash = content_hash(code);
  return header;
}

struct Descriptor {
  int value = -1;
  ~Descriptor() {
    if (value >= 0) ::close(value);
  }
};

/// Returns true if only this user, or root, can change the open file: its code runs with this user's rights.
bool is_private(const Descriptor& open, mode_t kind) {
  struct stat status {};
  return open.value >= 0 && ::fstat(open.value, &status) == 0 && (status.st_mode & S_IFMT) == kind &&
         (status.st_uid == ::geteuid() || status.st_uid == 0) && (status.st_mode & (S_IWGRP | S_IWOTH)) == 0;
}

/// Removes the right to write from the group and others; returns false if the system refuses.
bool without_others(const Descriptor& open) {
  struct stat status {};
  if (::fstat(open.value, &status) != 0) return false;
  const mode_t others = S_IWGRP | S_IWOTH;
  return (status.st_mode & others) == 0 || ::fchmod(open.value, status.st_mode & 07777 & ~others) == 0;
}

bool read_all(const Descriptor& file, std::span<std::byte> to) {
  while (!to.empty()) {
    const ssize_t got = ::read(file.value, to.data(), to.size());
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return false;
    to = to.subspan(static_cast<size_t>(got));
  }
  return true;
}

}  // namespace

std::filesystem::path CompiledCache::file_of(std::string_view key) const {
  return folder_ / fmt::format("{:016x}.cubin", hash_of(key));
}

std::optional<std::vector<std::byte>> CompiledCache::find(std::string_view key) const {
  if (folder_.empty()) return std::nullopt;
  // The file is opened in the checked folder, even if another folder gets its name in between.
  const Descriptor folder{::open(folder_.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC)};
  if (!is_private(folder, S_IFDIR)) return std::nullopt;
  const Descriptor file{
      ::openat(folder.value, file_of(key).filename().c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC)};
  if (!is_private(file, S_IFREG)) return std::nullopt;
  struct stat status {};
  if (::fstat(file.value, &status) != 0) return std::nullopt;
  const auto size = static_cast<int64_t>(status.st_size);
  Header header;
  if (size < static_cast<int64_t>(sizeof header) || !read_all(file, std::as_writable_bytes(std::span(&header, 1))))
    return std::nullopt;
  // The header's size is untrusted: it must match the size of the file.
  if (header.code_bytes > kMaxCodeBytes || header.code_bytes != static_cast<uint64_t>(size) - sizeof header)
    return std::nullopt;
  std::vector<std::byte> code(header.code_bytes);
  if (!read_all(file, code)) return std::nullopt;
  const Header expected = header_of(key, code);
  if (std::memcmp(&header, &expected, sizeof header) != 0) return std::nullopt;
  return code;
}

void CompiledCache::keep(std::string_view key, const std::vector<std::byte>& code) const {
  if (folder_.empty()) return;
  try {
    std::filesystem::create_directories(folder_);
    // Under a umask of 002 the group could write the folder and its files.
    const Descriptor folder{::open(folder_.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC)};
    if (folder.value < 0 || !without_others(folder) || !is_private(folder, S_IFDIR)) return;
    AtomicFile file(file_of(key));
    const Header header = header_of(key, code);
    file.write(std::as_bytes(std::span(&header, 1)));
    file.write(code);
    file.commit();
    const Descriptor kept{::open(file_of(key).c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC)};
    if (kept.value >= 0) without_others(kept);
  } catch (const UserError&) {
  } catch (const std::filesystem::filesystem_error&) {
  }
}

}  // namespace plimsoll
