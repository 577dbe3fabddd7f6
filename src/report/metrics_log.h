// Writes the metrics of a run as JSON lines, one object a line: {"step":100,"loss":3.21,"learning_rate":0.0003}
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

/// A log that appends to a file that may be read while it grows. One system call writes each line, so a reader sees
/// whole lines. Nothing is synced: a power loss may cost the last lines, which the next resume drops.
class MetricsLog {
 public:
  /// Opens `path` for appending, or creates it. With `resume_step`, lines of the file's last run at or after that step
  /// are dropped first, because they are about to be written again; the file is rewritten through a temporary file. A
  /// run ends where the step number decreases, so the lines of earlier runs in the same file stay. A last line cut
  /// short by a crash is dropped too. Throws UserError if the file cannot be opened, read or replaced.
  explicit MetricsLog(std::filesystem::path path, std::optional<int64_t> resume_step = {});
  ~MetricsLog();
  MetricsLog(const MetricsLog&) = delete;
  MetricsLog& operator=(const MetricsLog&) = delete;

  /// Appends a line: "step" and then `values` in their order. Numbers that are not finite become null; bytes that are
  /// not UTF-8 become the replacement character. Throws UserError (failure) if the line cannot be written; the file
  /// then ends with the previous line.
  void write(int64_t step, const std::vector<std::pair<std::string, MetricValue>>& values);

 private:
  std::filesystem::path path_;
  int descriptor_ = -1;
};

}  // namespace plimsoll
