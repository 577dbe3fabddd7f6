#include "cli/run_status.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cmath>
#include <cstdlib>
#include <fstream>
#include <functional>
#include <iterator>
#include <sstream>

#include "base/process.h"

namespace plimsoll {
namespace {

using Json = nlohmann::ordered_json;

constexpr const char* kFailed = "failed";
constexpr size_t kMaxStatusLength = 1 << 20;
constexpr size_t kMaxRuns = 1000;
constexpr size_t kMaxEnded = 100;
constexpr size_t kMaxRoles = 32;
constexpr size_t kMaxRanks = 1024;

double finite(double value) {
  return std::isfinite(value) ? value : 0;
}

std::string text_of(const RunStatus& status) {
  Json roles = Json::array();
  for (const RoleBytes& each : status.roles) roles.push_back({{"role", each.role}, {"planned", each.planned}});
  Json ranks = Json::array();
  for (const RankStatus& each : status.ranks) {
    if (ranks.size() == kMaxRanks) break;
    ranks.push_back({{"host", each.host},
                     {"pid", each.pid},
                     {"planned_bytes", each.planned_bytes},
                     {"used_bytes", each.used_bytes},
                     {"exchange_seconds", finite(each.exchange_seconds)},
                     {"train_seconds", finite(each.train_seconds)}});
  }
  return Json{{"pid", status.pid},
              {"process_start", status.process_start},
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
              {"ranks", ranks},
              {"started", status.started},
              {"updated", status.updated}}
      .dump(-1, ' ', false, Json::error_handler_t::replace);
}

// Reads a field; a missing one keeps its default.
template <typename Value>
void read_field(const Json& json, const char* name, Value& value) {
  if (const auto found = json.find(name); found != json.end()) value = found->template get<Value>();
}

// Reads a status. Other programs of the same user can write into the folder, so nothing in the file is trusted.
std::optional<RunStatus> status_in(const std::filesystem::path& file) {
  std::ifstream stream(file, std::ios::binary);
  std::string text(kMaxStatusLength + 1, '\0');
  stream.read(text.data(), static_cast<std::streamsize>(text.size()));
  text.resize(static_cast<size_t>(stream.gcount()));
  if (text.empty() || text.size() > kMaxStatusLength) return std::nullopt;
  const Json json = Json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (!json.is_object()) return std::nullopt;
  try {
    RunStatus status;
    status.pid = json.at("pid");
    status.process_start = json.at("process_start");
    read_field(json, "job", status.job);
    read_field(json, "device", status.device);
    read_field(json, "state", status.state);
    read_field(json, "step", status.step);
    read_field(json, "max_steps", status.max_steps);
    read_field(json, "epoch", status.epoch);
    read_field(json, "loss", status.loss);
    read_field(json, "learning_rate", status.learning_rate);
    read_field(json, "units_per_second", status.units_per_second);
    read_field(json, "step_seconds", status.step_seconds);
    read_field(json, "unit", status.unit);
    read_field(json, "budget_bytes", status.budget_bytes);
    read_field(json, "planned_bytes", status.planned_bytes);
    read_field(json, "used_bytes", status.used_bytes);
    read_field(json, "host_budget_bytes", status.host_budget_bytes);
    read_field(json, "host_planned_bytes", status.host_planned_bytes);
    read_field(json, "started", status.started);
    read_field(json, "updated", status.updated);
    if (const auto roles = json.find("roles"); roles != json.end())
      for (const Json& role : *roles) {
        if (status.roles.size() == kMaxRoles) break;
        status.roles.push_back({role.at("role"), role.at("planned")});
      }
    if (const auto ranks = json.find("ranks"); ranks != json.end())
      for (const Json& rank : *ranks) {
        if (status.ranks.size() == kMaxRanks) break;
        RankStatus& of = status.ranks.emplace_back();
        read_field(rank, "host", of.host);
        read_field(rank, "pid", of.pid);
        read_field(rank, "planned_bytes", of.planned_bytes);
        read_field(rank, "used_bytes", of.used_bytes);
        read_field(rank, "exchange_seconds", of.exchange_seconds);
        read_field(rank, "train_seconds", of.train_seconds);
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

bool is_absolute(const char* folder) {
  return folder != nullptr && *folder == '/';
}

// Returns the possible folders in order of preference. A run writes to the first that exists or can be made; the
// monitor reads all.
std::vector<std::filesystem::path> places(bool also_elsewhere) {
  if (const char* chosen = std::getenv("PLIMSOLL_RUNTIME_DIR"); is_absolute(chosen)) return {chosen};
  std::vector<std::filesystem::path> places;
  const std::string user = std::to_string(geteuid());
  if (const char* runtime = std::getenv("XDG_RUNTIME_DIR"); is_absolute(runtime))
    places.push_back(std::filesystem::path(runtime) / "plimsoll");
  if (also_elsewhere) places.push_back("/run/user/" + user + "/plimsoll");
  places.push_back("/tmp/plimsoll-" + user);
  return places;
}

// A status of a run that trains is overdue by a step at most. A clock that was set back must not keep a run for ever.
bool is_listed(const RunStatus& ended, double now) {
  return ended.step > 0 && std::abs(now - ended.updated) <= kEndedSeconds + ended.step_seconds;
}

void add_runs_in(const std::filesystem::path& folder, double now, std::vector<RunStatus>& alive,
                 std::vector<RunStatus>& ended) {
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(folder, error)) {
    if (alive.size() == kMaxRuns) break;
    const std::filesystem::path& file = entry.path();
    if (file.extension() != ".json" || !entry.is_regular_file(error)) continue;
    auto status = status_in(file);
    if (!status || file.stem() != std::to_string(status->pid) || status->pid <= 0) continue;
    const bool is_alive = process_start_of(status->pid) == status->process_start;
    if (!is_alive && !is_ended(*status)) status->state = kFailed;
    if (!is_ended(*status))
      alive.push_back(std::move(*status));
    else if (is_listed(*status, now))
      ended.push_back(std::move(*status));
    else if (!is_alive)
      std::filesystem::remove(file, error);
  }
}

}  // namespace

bool is_ended(const RunStatus& status) {
  return status.state == "finished" || status.state == "stopped" || status.state == kFailed;
}

double seconds_since_1970() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

std::optional<std::filesystem::path> runtime_folder() {
  for (const std::filesystem::path& folder : places(/*also_elsewhere=*/false))
    if ((mkdir(folder.c_str(), 0700) == 0 || errno == EEXIST) && is_ours(folder)) return folder;
  return std::nullopt;
}

std::vector<std::filesystem::path> runtime_folders() {
  std::vector<std::filesystem::path> there;
  for (const std::filesystem::path& folder : places(/*also_elsewhere=*/true))
    if (is_ours(folder) && std::ranges::find(there, folder) == there.end()) there.push_back(folder);
  return there;
}

RunStatusFile::RunStatusFile(std::optional<std::filesystem::path> folder) {
  if (!folder) return;
  path_ = *folder / (std::to_string(getpid()) + ".json");
  try {
    listed_runs({*folder}, seconds_since_1970());  // removes old files, also if no monitor is used
  } catch (...) {                                  // no error here may end the run
  }
}

RunStatusFile::~RunStatusFile() {
  if (!path_.empty() && !kept_) unlink(path_.c_str());
}

// Does not use AtomicFile, which syncs the disk: that is not needed for a file that is replaced every half second.
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
  } catch (...) {  // no error here may end the run
  }
}

std::vector<RunStatus> listed_runs(const std::vector<std::filesystem::path>& folders, double now) {
  std::vector<RunStatus> runs, ended;
  for (const std::filesystem::path& folder : folders) add_runs_in(folder, now, runs, ended);
  std::ranges::sort(runs, {}, &RunStatus::started);
  std::ranges::sort(ended, std::greater(), &RunStatus::updated);
  if (ended.size() > kMaxEnded) ended.resize(kMaxEnded);
  std::ranges::move(ended, std::back_inserter(runs));
  return runs;
}

}  // namespace plimsoll
