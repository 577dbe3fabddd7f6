// Declares the output files of a training run, checked before the run and locked against other runs, and the metrics
// of a run as lines of log.metrics_file.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/measurement.h"
#include "plimsoll/job.h"
#include "plimsoll/train_job.h"
#include "report/metrics_log.h"
#include "report/run_lock.h"

namespace plimsoll {

/// A lock on the job's checkpoints and metrics while it lives.
class RunOutputs {
 public:
  /// Makes the folders of checkpoints and caches, and checks that checkpoints, metrics and data offloaded to disk can
  /// be written before any training. Throws UserError if they cannot. Throws UserError (usage) if another run
  /// writes them, or if the metrics are one of data.files.
  explicit RunOutputs(const Job& job);
  /// Removes folders that it made and that are empty.
  ~RunOutputs();
  RunOutputs(const RunOutputs&) = delete;
  RunOutputs& operator=(const RunOutputs&) = delete;

 private:
  void make(const std::filesystem::path& folder);
  void lock_folder(const Job& job);
  void lock_metrics(const Job& job);
  void remove_empty();

  std::vector<std::filesystem::path> made_;  ///< folders, inner ones after outer ones
  std::vector<RunLock> locks_;
};

/// The metrics of a run. Until open() is called, nothing is written.
class RunMetrics {
 public:
  explicit RunMetrics(TrainObserver& observer) : observer_(observer) {}

  /// Opens the job's file, if it names one. `resumed_step`: the lines after it are written again; 0: the run was not
  /// resumed. Throws UserError, with the key, if the file cannot be opened.
  void open(const Job& job, int64_t resumed_step);
  /// Starts the clock of the throughput, before the first step.
  void start() { logged_at_ = seconds_now(); }
  /// Subtracts seconds that are not training time from the throughput of the next line.
  void exclude(double seconds) { logged_at_ += seconds; }

  /// Counts the tokens of a step, after which the run has read `position` windows. Writes its line if the job requests
  /// one after this step.
  void log(const Job& job, const TrainProgress& progress, int64_t tokens, int64_t position);
  /// Writes a line. A full disk may have space again later: each line is tried, and the first failure is reported.
  void write(int64_t step, const std::vector<std::pair<std::string, MetricValue>>& values);

  /// Returns the lines that could not be written, as text; empty: none.
  std::string not_written() const;

 private:
  TrainObserver& observer_;
  std::optional<MetricsLog> log_;
  double logged_at_ = 0;
  int64_t tokens_since_log_ = 0;
  int64_t lost_ = 0, lost_from_ = 0;  // number of lines, and the step of the first
  std::string lost_why_;
};

}  // namespace plimsoll
