// The ladder from a plain float32 step to the planner's pick: each rung trained for a few steps and measured.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "plimsoll/job.h"

namespace plimsoll {

/// One row of `plimsoll compare`: a set of memory savings, planned and trained for a few steps.
struct CompareRow {
  std::string name;      ///< "float32", "+ mixed precision", …, "planner's choice"
  std::string settings;  ///< "bf16-mixed, micro batch 4 x 8, 12.1 % recomputed"
  bool fits = true;      ///< false: planned only
  int64_t budget_bytes = 0;
  int64_t planned_peak_bytes = 0;
  int64_t measured_peak_bytes = 0;
  int64_t planned_host_bytes = 0;   ///< beside the peak, in host memory
  int64_t measured_host_bytes = 0;  ///< likewise
  int64_t planned_disk_bytes = 0;   ///< on disk
  int64_t measured_disk_bytes = 0;  ///< likewise
  double predicted_step_seconds = 0;
  double measured_step_seconds = 0;  ///< median, the first two steps left out
  double final_loss = 0;             ///< of the last step; all rows have seen the same data
};

/// Options of a comparison.
struct CompareOptions {
  int64_t steps = 6;
  double measure_seconds = 5;  ///< for timing the ops of each row before it is planned; 0: plan by what is on file
  /// Hears which row is worked on: its index, how many there are, and its name.
  std::function<void(int index, int count, const std::string& name)> on_row;
  std::function<bool()> stop;  ///< asked between rows: the rows so far are the answer
};

/// Trains the job's rows on this machine, each from the start with the same seed and the same data, at the same
/// effective batch. Writes no checkpoint and no metrics. Throws UserError as train_job does.
std::vector<CompareRow> compare_job(const Job& job, const CompareOptions& options);

}  // namespace plimsoll
