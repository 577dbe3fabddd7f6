// The files that a training run writes, tried before it, and kept from other runs while it lasts.
#pragma once

#include <filesystem>
#include <vector>

#include "plimsoll/job.h"
#include "report/run_lock.h"

namespace plimsoll {

/// While it lives, the job's checkpoints and metrics are this run's.
class RunOutputs {
 public:
  /// Makes the checkpoints' folder and the caches' and finds out whether checkpoints, metrics and what is moved to disk
  /// can be written: what cannot be saved should not be trained. Throws UserError: failure where they cannot; usage
  /// where another run writes them, or where the metrics are one of data.files.
  explicit RunOutputs(const Job& job);
  /// Removes what it made and nobody has put anything into.
  ~RunOutputs();
  RunOutputs(const RunOutputs&) = delete;
  RunOutputs& operator=(const RunOutputs&) = delete;

 private:
  void make(const std::filesystem::path& folder);
  void take_folder(const Job& job);
  void take_metrics(const Job& job);
  void remove_empty();

  std::vector<std::filesystem::path> made_;  ///< folders, the inner behind the outer
  std::vector<RunLock> locks_;
};

}  // namespace plimsoll
