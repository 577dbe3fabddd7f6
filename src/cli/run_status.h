// Declares the status that a run publishes for `plimsoll monitor`: a small JSON file in the user's runtime folder. It
// is replaced whole every half second. After the run's end it stays for kEndedSeconds if the run has taken a step.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace plimsoll {

/// Planned bytes of one role of memory at the peak.
struct RoleBytes {
  std::string role;
  int64_t planned = 0;
};

/// Status of one of several ranks of a run.
struct RankStatus {
  std::string host;
  int64_t pid = 0;                                 ///< process id on its host
  int64_t planned_bytes = 0, used_bytes = 0;       ///< bytes of its device, at the peak
  double exchange_seconds = 0, train_seconds = 0;  ///< seconds in exchanges, and seconds since the first step began
};

struct RunStatus {
  int64_t pid = 0;
  int64_t process_start =
      0;            ///< process_start_of() (base/process.h): distinguishes the process from a later one with its number
  std::string job;  ///< the job file
  std::string device;  ///< cpu | cuda | ...
  std::string state;   ///< preparing | training | finished | stopped (by a signal) | failed
  int64_t step = 0, max_steps = 0, epoch = 0;
  double loss = 0, learning_rate = 0;
  double units_per_second = 0, step_seconds = 0;
  std::string unit;               ///< tokens | samples
  int64_t budget_bytes = 0;       ///< 0: none
  int64_t planned_bytes = 0;      ///< at the peak
  int64_t used_bytes = 0;         ///< largest value so far
  int64_t host_budget_bytes = 0;  ///< budget of host memory, in addition to the device's; 0: none
  int64_t host_planned_bytes = 0;
  std::vector<RoleBytes> roles;     ///< at the planned peak, largest first
  std::vector<RankStatus> ranks;    ///< by rank, at most 1024; empty: there is one rank
  double started = 0, updated = 0;  ///< seconds since 1970
};

/// Seconds for which a run is listed after its end.
constexpr double kEndedSeconds = 600;

/// Returns true if the run has finished, was stopped or has failed.
bool is_ended(const RunStatus& status);

/// Returns the folder in which a run publishes its status: $XDG_RUNTIME_DIR/plimsoll, or /tmp/plimsoll-UID if that is
/// not set or cannot be used. It is made for this user only. Returns nullopt if neither can be made, or if both paths
/// belong to another user. $PLIMSOLL_RUNTIME_DIR, if it is an absolute path, replaces all of these.
std::optional<std::filesystem::path> runtime_folder();

/// Returns the folders in which runs may publish: those of runtime_folder() that exist, and /run/user/UID/plimsoll. The
/// monitor may have another environment than the run, in a service or over ssh.
std::vector<std::filesystem::path> runtime_folders();

/// A status file named by the process's number. It never throws: a run does not end because it cannot be watched.
class RunStatusFile {
 public:
  /// Removes files of runs in `folder` that ended more than kEndedSeconds ago.
  explicit RunStatusFile(std::optional<std::filesystem::path> folder = runtime_folder());
  /// Removes the file, except after keep().
  ~RunStatusFile();
  RunStatusFile(const RunStatusFile&) = delete;
  RunStatusFile& operator=(const RunStatusFile&) = delete;

  void write(const RunStatus& status) noexcept;
  /// Leaves the file for kEndedSeconds: its last status is one of is_ended().
  void keep() { kept_ = true; }

 private:
  std::filesystem::path path_;  ///< empty: no file can be written
  bool kept_ = false;
};

/// Returns the runs that are alive, by start time, and after them at most 100 runs that ended at most kEndedSeconds
/// before `now` (seconds since 1970), the last one first. A run whose process is gone and has not written its end has
/// the state "failed": it was killed. Files of all other processes that are gone are removed. Files that cannot be read
/// for other reasons are skipped. A field that a file does not have keeps its default: the run may be of an earlier or
/// a later version.
std::vector<RunStatus> listed_runs(const std::vector<std::filesystem::path>& folders, double now);

/// Returns the time now, in seconds since 1970.
double seconds_since_1970();

}  // namespace plimsoll
