// Declares `plimsoll compare`: the job trained for a few steps with more and more memory savings, each measured.
//
// The rows go from a plain float32 step to the planner's choice.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "plimsoll/job.h"

namespace plimsoll {

/// A row of `plimsoll compare`: a set of memory savings, planned and trained for a few steps.
struct CompareRow {
  std::string name;      ///< "float32", "+ mixed precision", …, "planner's choice"
  std::string settings;  ///< "bf16-mixed, micro batch 4 x 8, 12.1 % recomputed"
  bool fits = true;      ///< false: planned only
  int64_t budget_bytes = 0;
  int64_t planned_peak_bytes = 0;
  int64_t measured_peak_bytes = 0;
  int64_t planned_host_bytes = 0;     ///< planned bytes in host memory, in addition to the peak on the device
  int64_t measured_host_bytes = 0;    ///< measured bytes in host memory
  int64_t planned_disk_bytes = 0;     ///< planned bytes on disk
  int64_t measured_disk_bytes = 0;    ///< measured bytes on disk
  double predicted_step_seconds = 0;  ///< median prediction of the timed steps; if the row was not trained: the plan's
  double measured_step_seconds = 0;   ///< median without the first two steps
  double final_loss = 0;              ///< loss of the last step; all rows have seen the same data
};

/// Options of a comparison.
struct CompareOptions {
  int64_t steps = 6;
  /// Time for timing the ops of each row before it is planned; 0: plan by the times on file.
  double measure_seconds = 5;
  /// Receives the row that begins: its index, the number of rows, and its name.
  std::function<void(int index, int count, const std::string& name)> on_row;
  std::function<bool()> stop;  ///< called between rows; true: return the rows so far
};

/// Trains the job's rows on this machine, each from the start with the same seed and the same data, at the same
/// effective batch. Writes no checkpoint and no metrics. Throws UserError as train_job does.
std::vector<CompareRow> compare_job(const Job& job, const CompareOptions& options);

}  // namespace plimsoll
