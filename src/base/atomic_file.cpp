#include "base/atomic_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdlib>
#include <mutex>
#include <set>
#include <system_error>
#include <utility>

#include "base/file_error.h"
#include "plimsoll/error.h"

namespace plimsoll {
namespace {

/// The longest part of the target's name in the temporary file's name: both must fit into the 255 bytes of a name.
constexpr size_t kNamePart = 200;
constexpr int kNameAttempts = 1000;

/// The hidden files that exist now.
struct UnfinishedFiles {
  std::mutex mutex;
  std::set<std::filesystem::path> paths;
};
UnfinishedFiles& unfinished_files() {
  static auto* const files = new UnfinishedFiles;  // never destroyed: files may be written until the process ends
  return *files;
}
void forget_unfinished(const std::filesystem::path& path) {
  const std::lock_guard lock(unfinished_files().mutex);
  unfinished_files().paths.erase(path);
}

std::filesystem::path folder_of(const std::filesystem::path& file) {
  return file.has_parent_path() ? file.parent_path() : std::filesystem::path(".");
}

}  // namespace

AtomicFile::AtomicFile(std::filesystem::path path) : path_(std::move(path)), target_(path_) {
  struct stat status {};
  bool exists = ::stat(path_.c_str(), &status) == 0;
  // The hidden file's name is cut, so only this call finds a name that is too long.
  if (!exists && errno != ENOENT) fail(errno);
  if (exists && S_ISDIR(status.st_mode)) fail(EISDIR);
  if (exists && !S_ISREG(status.st_mode)) {
    descriptor_ = ::open(path_.c_str(), O_WRONLY | O_CLOEXEC);
    if (descriptor_ < 0) fail(errno);
    return;
  }
  if (exists) {
    // For rename, only the folder's permissions count. A write-protected file must not be replaced, so it is checked
    // here.
    if (::faccessat(AT_FDCWD, path_.c_str(), W_OK, AT_EACCESS) != 0) fail(errno);
    std::error_code ignored;
    std::filesystem::path resolved = std::filesystem::canonical(path_, ignored);
    if (!resolved.empty()) target_ = resolved;
  }
  open_aside();
  if (exists) (void)!::fchmod(descriptor_, status.st_mode & 0777);
}

AtomicFile::~AtomicFile() {
  if (descriptor_ >= 0) ::close(descriptor_);
  if (aside_.empty()) return;
  ::unlink(aside_.c_str());
  forget_unfinished(aside_);
}

void AtomicFile::fail(int error) const {
  throw_file_error("write", path_, error);
}

void AtomicFile::fail_opened(int error) const {
  throw_file_error("write", path_, error, UserError::Kind::failure);
}

void AtomicFile::open_aside() {
  static std::atomic<uint64_t> counter{0};
  std::string name = target_.filename().string();
  if (name.empty()) fail(EISDIR);
  // No mkstemp: it makes files that only the owner can read, and the umask cannot be read without changing it.
  for (int attempt = 0; attempt < kNameAttempts; ++attempt) {
    std::filesystem::path candidate =
        folder_of(target_) /
        fmt::format(".{}.{}-{}.tmp", std::string_view(name).substr(0, kNamePart), ::getpid(), counter.fetch_add(1));
    descriptor_ = ::open(candidate.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (descriptor_ >= 0) {
      aside_ = std::move(candidate);
      const std::lock_guard lock(unfinished_files().mutex);
      unfinished_files().paths.insert(aside_);
      return;
    }
    if (errno != EEXIST) fail(errno);
  }
  fail(EEXIST);
}

void AtomicFile::write(std::span<const std::byte> bytes) {
  check(descriptor_ >= 0, "AtomicFile: write after commit");
  while (!bytes.empty()) {
    ssize_t written = ::write(descriptor_, bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) fail_opened(written < 0 ? errno : EIO);
    bytes = bytes.subspan(static_cast<size_t>(written));
  }
}

void AtomicFile::commit() {
  check(descriptor_ >= 0, "AtomicFile: commit called twice");
  if (!aside_.empty() && ::fsync(descriptor_) != 0) fail_opened(errno);
  // Network file systems report a full disk only here.
  if (::close(std::exchange(descriptor_, -1)) != 0) fail_opened(errno);
  if (aside_.empty()) return;
  if (::rename(aside_.c_str(), target_.c_str()) != 0) fail_opened(errno);
  forget_unfinished(aside_);
  aside_.clear();
  sync_folder();
}

void AtomicFile::sync_folder() const {
  int folder = ::open(folder_of(target_).c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (folder < 0) return;  // a folder that may be written but not read: the rename is done, but cannot be synced
  int error = ::fsync(folder) == 0 ? 0 : errno;
  ::close(folder);
  if (error != 0 && error != EINVAL) fail_opened(error);  // EINVAL: the file system does not sync folders
}

void remove_unfinished_files() noexcept {
  const std::lock_guard lock(unfinished_files().mutex);
  for (const std::filesystem::path& each : unfinished_files().paths) ::unlink(each.c_str());
  unfinished_files().paths.clear();
}

void write_file_atomically(const std::filesystem::path& path, std::string_view contents) {
  AtomicFile file(path);
  file.write(contents);
  file.commit();
}

std::filesystem::path cache_folder() {
  if (const char* cache = std::getenv("XDG_CACHE_HOME"); cache && *cache == '/')
    return std::filesystem::path(cache) / "plimsoll";
  if (const char* home = std::getenv("HOME"); home && *home == '/')
    return std::filesystem::path(home) / ".cache/plimsoll";
  return {};
}

}  // namespace plimsoll
