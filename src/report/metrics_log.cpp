#include "report/metrics_log.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <fstream>
#include <limits>
#include <nlohmann/json.hpp>
#include <string_view>
#include <system_error>

#include "base/atomic_file.h"
#include "base/file_error.h"

namespace plimsoll {
namespace {

/// Returns the step of a line; nullopt for a line that is not ours.
std::optional<int64_t> step_of(const std::string& line) {
  nlohmann::json object = nlohmann::json::parse(line, nullptr, /*allow_exceptions=*/false);
  if (!object.is_object()) return {};
  auto step = object.find("step");
  if (step == object.end() || !step->is_number_integer()) return {};
  return step->get<int64_t>();
}

/// Returns the number of bytes of the file to keep when its last run resumes at `resume_step`.
int64_t bytes_kept(std::istream& in, int64_t resume_step) {
  constexpr int64_t none = -1;
  int64_t begin = 0, cut = none, last_step = std::numeric_limits<int64_t>::min();
  for (std::string line; std::getline(in, line);) {
    bool whole = !in.eof();
    std::optional<int64_t> step = step_of(line);
    if (step) {
      if (*step < last_step) cut = none;  // another run starts here
      if (cut == none && *step >= resume_step) cut = begin;
      last_step = *step;
    } else if (!whole && line.starts_with('{') && cut == none) {
      cut = begin;
    }
    begin += static_cast<int64_t>(line.size()) + (whole ? 1 : 0);
  }
  return cut == none ? begin : cut;
}

void drop_from(const std::filesystem::path& path, int64_t resume_step) {
  errno = 0;
  std::ifstream in(path, std::ios::binary);
  if (!in) throw_file_error("read", path, errno);
  const int64_t kept = bytes_kept(in, resume_step);
  if (in.bad()) throw_file_error("read", path, EIO);
  std::error_code ignored;
  if (kept == static_cast<int64_t>(std::filesystem::file_size(path, ignored))) return;

  AtomicFile shorter(path);
  in.clear();
  in.seekg(0);
  std::string piece(1 << 16, '\0');
  for (int64_t left = kept; left > 0; left -= in.gcount()) {
    in.read(piece.data(), std::min<int64_t>(left, std::ssize(piece)));
    if (in.gcount() == 0) throw_file_error("read", path, EIO);
    shorter.write(std::string_view(piece).substr(0, static_cast<size_t>(in.gcount())));
  }
  shorter.commit();
}

}  // namespace

MetricsLog::MetricsLog(std::filesystem::path path, std::optional<int64_t> resume_step) : path_(std::move(path)) {
  std::error_code ignored;  // an error here also makes the open() below fail
  if (resume_step && std::filesystem::is_regular_file(path_, ignored)) drop_from(path_, *resume_step);
  descriptor_ = ::open(path_.c_str(), O_RDWR | O_APPEND | O_CREAT | O_CLOEXEC, 0666);
  if (descriptor_ < 0) throw_file_error("write", path_, errno);
  // Without this, our first line would be appended to one that a crash cut short.
  off_t end = ::lseek(descriptor_, 0, SEEK_END);
  char last = '\n';
  if (end > 0 && ::pread(descriptor_, &last, 1, end - 1) == 1 && last != '\n') (void)!::write(descriptor_, "\n", 1);
}

MetricsLog::~MetricsLog() {
  if (descriptor_ >= 0) ::close(descriptor_);
}

void MetricsLog::write(int64_t step, const std::vector<std::pair<std::string, MetricValue>>& values) {
  nlohmann::ordered_json object;
  object["step"] = step;
  for (const auto& [name, value] : values) {
    std::visit([&object, &name = name](const auto& held) { object[name] = held; }, value);
  }
  // dump() writes null for numbers that are not finite.
  const std::string line = object.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";

  struct stat before {};
  bool regular = ::fstat(descriptor_, &before) == 0 && S_ISREG(before.st_mode);
  ssize_t written = 0;
  do {
    written = ::write(descriptor_, line.data(), line.size());
  } while (written < 0 && errno == EINTR);
  if (written == std::ssize(line)) return;
  // A short write means that the disk has just become full.
  int error = written < 0 ? errno : ENOSPC;
  if (written > 0 && regular) (void)!::ftruncate(descriptor_, before.st_size);
  throw_file_error("write", path_, error);
}

}  // namespace plimsoll
