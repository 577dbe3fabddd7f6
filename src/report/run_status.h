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

struct RunStatus {
  int64_t pid = 0;
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
  double started = 0, updated = 0;  ///< seconds since 1970
};

/// $XDG_RUNTIME_DIR/plimsoll, or /tmp/plimsoll-UID: made for the user alone. Nothing where it cannot be made, or
/// another user's is in its place.
std::optional<std::filesystem::path> runtime_folder();

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

/// The runs that are alive, by their start; files of processes that are gone are removed, others that cannot be read
/// are passed over.
std::vector<RunStatus> live_runs(const std::filesystem::path& folder);

}  // namespace plimsoll
