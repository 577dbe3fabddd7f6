// The metrics of a run as JSON lines, one object a line: {"step":100,"loss":3.21,"learning_rate":0.0003}
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

namespace plimsoll {

using MetricValue = std::variant<double, int64_t, std::string>;

/// Appends to a file that may be read while it grows: a line is written by one system call, so a reader sees whole
/// lines. Nothing is synced: a power loss may cost the last lines, which the next resume takes care of.
class MetricsLog {
 public:
  /// Opens `path` for appending, or makes it. With `resume_step` the lines of the file's last run at or after that step
  /// are dropped first (they are about to be written again), through a rewrite aside; a run ends where the steps go
  /// down, so the lines of earlier runs in the same file stay. A last line cut short by a crash is dropped too.
  /// Throws UserError (failure) where the file cannot be opened, read or replaced.
  explicit MetricsLog(std::filesystem::path path, std::optional<int64_t> resume_step = {});
  ~MetricsLog();
  MetricsLog(const MetricsLog&) = delete;
  MetricsLog& operator=(const MetricsLog&) = delete;

  /// One line: "step" and then `values` in their order. Numbers that are not finite become null, bytes that are not
  /// UTF-8 the replacement character. Throws UserError (failure) where the system refuses; the file then ends with the
  /// line before.
  void write(int64_t step, const std::vector<std::pair<std::string, MetricValue>>& values);

 private:
  std::filesystem::path path_;
  int descriptor_ = -1;
};

}  // namespace plimsoll
