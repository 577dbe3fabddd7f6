// Declares the checkpoints of a run: what it resumes from, what it saves, and what must not differ when it resumes.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>

#include "plimsoll/run_length.h"
#include "plimsoll/train_job.h"
#include "train/prepared_run.h"

namespace plimsoll {

/// Sets the formats that `requested` leaves open to those of the checkpoint, even if others would now be faster or more
/// exact. The process keeps the checkpoint's kernels, because the bits of a run depend on them.
void keep_choices_of(const std::filesystem::path& checkpoint, Job& requested);

/// Reads the checkpoint into the started training of `run`, whose data are identified. Returns the position in the
/// data. Errors name the key if the job names the checkpoint. `noted` is called with what is to be known of other data.
int64_t resume_run(const std::filesystem::path& checkpoint, PreparedRun& run,
                   const std::function<void(const std::string& line)>& noted);

/// Saves a checkpoint of `run` at `position` in the data, with `schedule` of schedule_text(). All
/// ranks call it; `leads`: this rank writes the file.
/// Returns the file; empty on the other ranks.
std::filesystem::path save_run(PreparedRun& run, int64_t position, const std::string& schedule, bool leads);

/// Throws UserError (usage) with both meanings and how to write either, if all of this holds: the reader took the job's
/// batch_size for the micro batch, and the checkpoint's `position` after `steps` steps fits the meaning of the whole
/// step, which was used until 2026-11-23. A checkpoint of other batches is accepted: batch sizes may change. `epoch_of`
/// returns the epoch of a position; `checkpoint` names the file.
void require_same_batch_meaning(const Job& requested, const ResolvedSettings& settings, int64_t steps, int64_t position,
                                const std::function<int64_t(int64_t position)>& epoch_of,
                                const std::string& checkpoint);

/// The counter of a checkpoint that holds schedule_text().
inline constexpr const char* kScheduleCounter = "schedule";

/// Returns the learning rate of every step of the run as text: "cosine from 0.001 to 0.0001 at step 3561, warm-up 20".
std::string schedule_text(const Job& job, const RunLength& length);

/// Returns a line if the checkpoint's run had another schedule than the job: the rates of a resumed run are those of
/// the new one. If only its steps differ, the line has the scheduler.steps that keeps the old one. Returns "" if both
/// are equal, or the checkpoint is of an earlier version and does not say.
std::string schedule_change(const std::filesystem::path& checkpoint, const Job& job, const RunLength& length);

}  // namespace plimsoll
