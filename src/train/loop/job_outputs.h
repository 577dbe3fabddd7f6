// Declares the output files of a training run. They are checked before the run, and locked against other runs while it
// lasts.
#pragma once

#include <filesystem>
#include <vector>

#include "plimsoll/job.h"
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

}  // namespace plimsoll
