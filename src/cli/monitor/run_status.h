// What a run says of itself while it runs, for `plimsoll monitor`: a small JSON file in the user's runtime folder,
// replaced whole every half second and removed when the run ends.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace plimsoll {

/// Bytes of one role of memory, as planned at the peak and as far as they were used.
struct RoleBytes {
  std::string role;
  int64_t planned = 0;
};

/// One of several ranks of a run.
struct RankStatus {
  std::string host;
  int64_t pid = 0;                                 ///< on its host
  int64_t planned_bytes = 0, used_bytes = 0;       ///< of its device, at the peak
  double exchange_seconds = 0, train_seconds = 0;  ///< in exchanges, of the time since the first step began
};

struct RunStatus {
  int64_t pid = 0;
  int64_t process_start =
      0;  ///< as process_start_of() has it (base/process_start.h): tells the process from a later one of its number
  std::string job;     ///< the job file
  std::string device;  ///< cpu | cuda | ...
  std::string state;   ///< preparing | training
  int64_t step = 0, max_steps = 0, epoch = 0;
  double loss = 0, learning_rate = 0;
  double units_per_second = 0, step_seconds = 0;
  std::string unit;               ///< tokens | samples
  int64_t budget_bytes = 0;       ///< 0: none
  int64_t planned_bytes = 0;      ///< at the peak
  int64_t used_bytes = 0;         ///< the most so far
  int64_t host_budget_bytes = 0;  ///< of memory beside the device's; 0: none
  int64_t host_planned_bytes = 0;
  std::vector<RoleBytes> roles;     ///< at the planned peak, the largest first
  std::vector<RankStatus> ranks;    ///< by rank, at most 1024; empty: there is one
  double started = 0, updated = 0;  ///< seconds since 1970
};

/// Where a run says what it does: $XDG_RUNTIME_DIR/plimsoll, or /tmp/plimsoll-UID where that is not set or cannot be
/// used. It is made for the user alone. Nothing where neither can be made, or another user's are in their places.
/// $PLIMSOLL_RUNTIME_DIR, where it is set to an absolute path, stands for all of these.
std::optional<std::filesystem::path> runtime_folder();

/// Where runs may say it: those of runtime_folder() that are there, and /run/user/UID/plimsoll. Whoever watches may
/// have another environment than the run, in a service or over ssh.
std::vector<std::filesystem::path> runtime_folders();

/// Publishes under the process's number. Never throws: a run does not end because nobody can watch it.
class RunStatusFile {
 public:
  explicit RunStatusFile(std::optional<std::filesystem::path> folder = runtime_folder());
  ~RunStatusFile();
  RunStatusFile(const RunStatusFile&) = delete;
  RunStatusFile& operator=(const RunStatusFile&) = delete;

  void write(const RunStatus& status) noexcept;

 private:
  std::filesystem::path path_;  ///< empty: nowhere to write
};

/// The runs that are alive, by their start; files of processes that are gone, also those whose number another one has
/// by now, are removed. Others that cannot be read are passed over. A field that a file does not have keeps its
/// default: the run may be of an earlier or a later version.
std::vector<RunStatus> live_runs(const std::vector<std::filesystem::path>& folders);

}  // namespace plimsoll
