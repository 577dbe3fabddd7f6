#include "report/run_status.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstdlib>
#include <fstream>
#include <nlohmann/json.hpp>

namespace plimsoll {
namespace {

using Json = nlohmann::ordered_json;

constexpr size_t kLongestStatus = 1 << 16;
constexpr size_t kMostRuns = 1000;
constexpr size_t kMostRoles = 32;

double finite(double value) {
  return std::isfinite(value) ? value : 0;
}

std::string text_of(const RunStatus& status) {
  Json roles = Json::array();
  for (const RoleBytes& each : status.roles) roles.push_back({{"role", each.role}, {"planned", each.planned}});
  return Json{{"pid", status.pid},
              {"job", status.job},
              {"device", status.device},
              {"state", status.state},
              {"step", status.step},
              {"max_steps", status.max_steps},
              {"epoch", status.epoch},
              {"loss", finite(status.loss)},
              {"learning_rate", finite(status.learning_rate)},
              {"units_per_second", finite(status.units_per_second)},
              {"step_seconds", finite(status.step_seconds)},
              {"unit", status.unit},
              {"budget_bytes", status.budget_bytes},
              {"planned_bytes", status.planned_bytes},
              {"used_bytes", status.used_bytes},
              {"host_budget_bytes", status.host_budget_bytes},
              {"host_planned_bytes", status.host_planned_bytes},
              {"roles", roles},
              {"started", status.started},
              {"updated", status.updated}}
      .dump(-1, ' ', false, Json::error_handler_t::replace);
}

// Other programs can write into the folder of the same user: nothing is taken on trust.
std::optional<RunStatus> status_in(const std::filesystem::path& file) {
  std::ifstream stream(file, std::ios::binary);
  std::string text(kLongestStatus + 1, '\0');
  stream.read(text.data(), static_cast<std::streamsize>(text.size()));
  text.resize(static_cast<size_t>(stream.gcount()));
  if (text.empty() || text.size() > kLongestStatus) return std::nullopt;
  const Json json = Json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (!json.is_object()) return std::nullopt;
  try {
    RunStatus status;
    status.pid = json.at("pid");
    status.job = json.at("job");
    status.device = json.at("device");
    status.state = json.at("state");
    status.step = json.at("step");
    status.max_steps = json.at("max_steps");
    status.epoch = json.at("epoch");
    status.loss = json.at("loss");
    status.learning_rate = json.at("learning_rate");
    status.units_per_second = json.at("units_per_second");
    status.step_seconds = json.at("step_seconds");
    status.unit = json.at("unit");
    status.budget_bytes = json.at("budget_bytes");
    status.planned_bytes = json.at("planned_bytes");
    status.used_bytes = json.at("used_bytes");
    status.host_budget_bytes = json.at("host_budget_bytes");
    status.host_planned_bytes = json.at("host_planned_bytes");
    status.started = json.at("started");
    status.updated = json.at("updated");
    for (const Json& role : json.at("roles")) {
      if (status.roles.size() == kMostRoles) break;
      status.roles.push_back({role.at("role"), role.at("planned")});
    }
    return status;
  } catch (const Json::exception&) {
    return std::nullopt;
  }
}

bool is_ours(const std::filesystem::path& folder) {
  struct stat found {};
  return lstat(folder.c_str(), &found) == 0 && S_ISDIR(found.st_mode) && found.st_uid == geteuid() &&
         (found.st_mode & 022) == 0;
}

}  // namespace

std::optional<std::filesystem::path> runtime_folder() {
  const char* runtime = std::getenv("XDG_RUNTIME_DIR");
  std::filesystem::path folder = "/tmp/plimsoll-" + std::to_string(geteuid());
  if (runtime != nullptr && *runtime == '/') folder = std::filesystem::path(runtime) / "plimsoll";
  if (mkdir(folder.c_str(), 0700) != 0 && errno != EEXIST) return std::nullopt;
  if (!is_ours(folder)) return std::nullopt;
  return folder;
}

RunStatusFile::RunStatusFile(std::optional<std::filesystem::path> folder) {
  if (folder) path_ = *folder / (std::to_string(getpid()) + ".json");
}

RunStatusFile::~RunStatusFile() {
  if (!path_.empty()) unlink(path_.c_str());
}

// Not through AtomicFile: it syncs the disk, which a file that lives for half a second need not.
void RunStatusFile::write(const RunStatus& status) noexcept {
  if (path_.empty()) return;
  try {
    const std::string text = text_of(status), aside = path_.string() + ".new";
    unlink(aside.c_str());
    const int file = open(aside.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (file < 0) return;
    const bool whole = ::write(file, text.data(), text.size()) == static_cast<ssize_t>(text.size());
    close(file);
    if (whole)
      rename(aside.c_str(), path_.c_str());
    else
      unlink(aside.c_str());
  } catch (...) {  // nothing that a run should end for
  }
}

std::vector<RunStatus> live_runs(const std::filesystem::path& folder) {
  std::vector<RunStatus> runs;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(folder, error)) {
    if (runs.size() == kMostRuns) break;
    const std::filesystem::path& file = entry.path();
    if (file.extension() != ".json" || !entry.is_regular_file(error)) continue;
    const auto status = status_in(file);
    if (!status || file.stem() != std::to_string(status->pid) || status->pid <= 0) continue;
    if (kill(static_cast<pid_t>(status->pid), 0) != 0 && errno == ESRCH) {
      std::filesystem::remove(file, error);
      continue;
    }
    runs.push_back(*status);
  }
  std::ranges::sort(runs, {}, &RunStatus::started);
  return runs;
}

}  // namespace plimsoll
