// Times of ops that a run has shown to be wrong: forgotten, and made again by the next plan, which says so.
#pragma once

#include <functional>
#include <string>

#include "plimsoll/train_job.h"

namespace plimsoll {

/// A run's steps contradict what was predicted of them when they take half as long again or more, or half as long or
/// less.
bool contradicts(double predicted_seconds, double measured_seconds);

/// After a run on the CPU whose steps took `measured_seconds`: where its prediction went by timed ops and is
/// contradicted, the times of the plan's ops are kept as such in the cache folder. Says so in a line, or is empty.
std::string contradict_times(const PlannedJob& planned, int threads, double measured_seconds);

/// The probable cause that other processes use the same cores, for a message: the steps took at least 1.5 times as long
/// as predicted, and the load average (runnable threads, over the last minute) is above the number of cores and above
/// `own_threads`, those of this run. Empty otherwise; `load` is 0 if it is not known.
std::string shared_cores_cause(double predicted_seconds, double measured_seconds, double load, int cores,
                               int own_threads);

/// Times the plan's contradicted ops again, for a few seconds at most, and then plans the job again by the new times,
/// with a reason that says it. `on_schedule` as plan_job() has it, before each timing too. Returns false if it did not
/// plan again: no run has contradicted an op, or none was timed, for which it adds a reason.
bool time_again(PlannedJob& planned, const Job& job, const PlanTarget& target,
                const std::function<void()>& on_schedule);

}  // namespace plimsoll
