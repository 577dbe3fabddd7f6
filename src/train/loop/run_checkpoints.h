// Declares the checkpoints of a run: what it resumes from, and what it saves.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>

#include "plimsoll/train_job.h"
#include "train/loop/prepared_run.h"

namespace plimsoll {

/// Sets the formats that `asked` leaves open to those of the checkpoint, even if others would now be faster or more
/// exact. The process keeps the checkpoint's kernels, because the bits of a run depend on them.
void keep_choices_of(const std::filesystem::path& checkpoint, Job& requested);

/// Reads the checkpoint into the started training of `run`, whose data are identified. Returns the position in the
/// data. Errors name the key if the job names the checkpoint. `noted` is called with what is to be known of other data.
int64_t resume_run(const std::filesystem::path& checkpoint, PreparedRun& run,
                   const std::function<void(const std::string& line)>& noted);

/// Saves a checkpoint of `run` at `position` in the data, with `schedule` of schedule_text() (saved_schedule.h). All
/// ranks call it; `leads`: this rank writes the file.
/// Returns the file; empty on the other ranks.
std::filesystem::path save_run(PreparedRun& run, int64_t position, const std::string& schedule, bool leads);

}  // namespace plimsoll
