// Declares the handling of op times that a run has shown to be wrong. They are dropped, and the next plan measures them
// again and says so.
#pragma once

#include <string>

#include "plimsoll/plan_training.h"

namespace plimsoll {

/// Returns true if a run's steps contradict their prediction: they take at least 1.5 times or at most 0.5 times as
/// long.
bool prediction_failed(double predicted_seconds, double measured_seconds);

/// Marks op times as wrong after a run on the CPU whose steps were predicted to take `predicted_seconds` and took
/// `measured_seconds`, waits for data not counted. If the prediction used timed ops and is contradicted, the cache
/// folder keeps the times of the plan's ops as contradicted. Returns a line that says so; otherwise an empty text.
std::string invalidate_op_times(const PlannedTraining& planned, int threads, double predicted_seconds,
                                double measured_seconds);

/// Returns the probable cause that other processes use the same cores, for a message. It holds if the steps took at
/// least 1.5 times as long as predicted, and the load average (runnable threads, over the last minute) exceeds both the
/// number of cores and `own_threads`, those of this run, by at least 0.5. Otherwise returns an empty text; `load` is 0
/// if it is not known.
std::string shared_cores_cause(double predicted_seconds, double measured_seconds, double load, int cores,
                               int own_threads);

/// Times the plan's contradicted ops again, for at most 10 seconds and within the target's allowance, and then plans
/// the training again by the new times, with a reason that says it. Calls `search.on_schedule` before each timing, too.
/// Returns false if it did not plan again: no run has contradicted an op, or none was timed, for which it adds a
/// reason.
bool retime_stale_ops(PlannedTraining& planned, const StepOfSize& step, const TrainingOptions& options,
                      const PlanTarget& target, const SearchOptions& search);

}  // namespace plimsoll
