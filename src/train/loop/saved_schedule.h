// Compares the learning-rate schedule of a checkpoint's run with that of the run that resumes from it.
#pragma once

#include <filesystem>
#include <string>

#include "plimsoll/run_length.h"

namespace plimsoll {

/// The counter of a checkpoint that holds schedule_text().
inline constexpr const char* kScheduleCounter = "schedule";

/// Returns the learning rate of every step of the run as text: "cosine from 0.001 to 0.0001 at step 3561, warm-up 20".
std::string schedule_text(const Job& job, const RunLength& length);

/// Returns a line if the checkpoint's run had another schedule than the job: the rates of a resumed run are those of
/// the new one. If only its steps differ, the line has the scheduler.steps that keeps the old one. Returns "" if both
/// are equal, or the checkpoint is of an earlier version and does not say.
std::string schedule_change(const std::filesystem::path& checkpoint, const Job& job, const RunLength& length);

}  // namespace plimsoll
