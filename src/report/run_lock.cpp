#include "report/run_lock.h"

#include <fcntl.h>
#include <fmt/chrono.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <nlohmann/json.hpp>
#include <optional>
#include <thread>
#include <utility>

#include "base/file_error.h"
#include "base/process.h"
#include "plimsoll/error.h"

namespace plimsoll {
namespace {

using Json = nlohmann::ordered_json;

constexpr size_t kMaxTextLength = 4096;
constexpr int kAttempts = 100;
// Tries and pauses: after a process has locked the file, it takes a short time until the text is written.
constexpr int kLooks = 20;
constexpr auto kBetweenLooks = std::chrono::milliseconds(10);

std::string host_name() {
  std::array<char, 256> name{};
  return ::gethostname(name.data(), name.size() - 1) == 0 ? name.data() : "";
}

struct Holder {
  std::string host, since, job;
  int64_t pid = 0, process_start = 0;

  bool is_here_and_alive() const {
    return host == host_name() && pid != ::getpid() && process_start_of(pid) == process_start;
  }
};

// Any user who may write into the folder may have written this file, so nothing in it is trusted.
std::optional<Holder> holder_in(const std::filesystem::path& file) {
  const int descriptor = ::open(file.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
  if (descriptor < 0) return std::nullopt;
  std::string text(kMaxTextLength, '\0');
  const ssize_t bytes = ::pread(descriptor, text.data(), text.size(), 0);
  ::close(descriptor);
  text.resize(bytes > 0 ? static_cast<size_t>(bytes) : 0);
  const Json json = Json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (!json.is_object()) return std::nullopt;
  try {
    return Holder{json.at("host"), json.at("since"), json.at("job"), json.at("pid"), json.at("process_start")};
  } catch (const Json::exception&) {
    return std::nullopt;
  }
}

bool has_no_locks(int error) {
  return error == ENOLCK || error == ENOSYS || error == EOPNOTSUPP || error == EINVAL;
}

}  // namespace

RunLock::RunLock(std::string what, std::filesystem::path file, const std::filesystem::path& job)
    : what_(std::move(what)), file_(std::move(file)) {
  // The last holder may remove the file between our opening and our locking it: then a new one is needed.
  for (int attempt = 0; attempt < kAttempts; ++attempt) {
    if (!open_and_lock()) continue;
    say_who(job);
    return;
  }
  throw UserError(fmt::format("{}: other runs created and removed its lock file {} several times; try again", what_,
                              file_.string()),
                  UserError::Kind::failure);
}

RunLock::RunLock(RunLock&& other) noexcept
    : what_(std::move(other.what_)), file_(std::move(other.file_)), descriptor_(std::exchange(other.descriptor_, -1)) {}

RunLock::~RunLock() {
  if (descriptor_ < 0) return;
  ::unlink(file_.c_str());  // only while the lock is held: after that another run may own it
  ::close(descriptor_);
}

// Returns false if it must be tried again.
bool RunLock::open_and_lock() {
  int descriptor = ::open(file_.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0666);
  // Another user's file can be locked too. If there is none, the folder does not allow a new one.
  if (descriptor < 0 && errno == EACCES) {
    descriptor = ::open(file_.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    if (descriptor < 0 && errno == ENOENT) throw_file_error("write into the folder", file_.parent_path(), EACCES);
  }
  if (descriptor < 0) throw_file_error("write", file_, errno);
  const int error = ::flock(descriptor, LOCK_EX | LOCK_NB) == 0 ? 0 : errno;
  struct stat opened {};
  struct stat there {};
  const bool same = ::fstat(descriptor, &opened) == 0 && ::lstat(file_.c_str(), &there) == 0 &&
                    opened.st_ino == there.st_ino && opened.st_dev == there.st_dev;
  const auto holder = has_no_locks(error) ? holder_in(file_) : std::nullopt;
  if (same && (error == 0 || (has_no_locks(error) && !(holder && holder->is_here_and_alive())))) {
    descriptor_ = descriptor;
    return true;
  }
  ::close(descriptor);
  if (!same) return false;
  if (error == EWOULDBLOCK || has_no_locks(error)) refuse();
  if (error != 0 && error != EINTR) throw_file_error("lock", file_, error);
  return false;
}

void RunLock::refuse() const {
  std::optional<Holder> holder;
  for (int look = 0; look < kLooks && !holder; ++look) {
    if (look > 0) std::this_thread::sleep_for(kBetweenLooks);
    holder = holder_in(file_);
  }
  std::string who = "its process is not known";
  if (holder) who = fmt::format("process {} on {}, since {}", holder->pid, holder->host, holder->since);
  if (holder && !holder->job.empty()) who += ", " + holder->job;
  throw UserError(fmt::format(
      "{} is in use by another run ({}); wait until that run has ended, or choose another place", what_, who));
}

// Writes the holder's text. A full disk, or a file that only its owner may write, does not prevent the lock.
void RunLock::say_who(const std::filesystem::path& job) const {
  const auto now = std::chrono::floor<std::chrono::seconds>(std::chrono::system_clock::now());
  const std::string text =
      Json{{"host", host_name()},
           {"pid", ::getpid()},
           {"process_start", process_start_of(::getpid()).value_or(0)},
           {"since", fmt::format("{:%Y-%m-%d %H:%M:%S} UTC", fmt::gmtime(std::chrono::system_clock::to_time_t(now)))},
           {"job", job.string()}}
          .dump(-1, ' ', false, Json::error_handler_t::replace) +
      "\n";
  (void)!::ftruncate(descriptor_, 0);
  (void)!::pwrite(descriptor_, text.data(), text.size(), 0);
}

}  // namespace plimsoll
