// Collects the facts about a job's data that a checkpoint holds (checkpoint/data_facts.h).
#pragma once

#include <functional>
#include <string>

#include "checkpoint/data_facts.h"
#include "plimsoll/job.h"

namespace plimsoll {

/// Returns the identity of every file that the job reads (data_files(), train/job_data.h), and the settings of the
/// split and the order. Keys with more than 256 files have one fact for all of them, and so has a folder. `tokenizer`:
/// OpenedSamples::tokenizer_text. `progress` is called with the done fraction in [0, 1] before each file, and may
/// throw. A file that cannot be read is a UserError that names its key; with data.skip_bad it is
/// no data and has no fact, and neither has an empty file. Reads at most 4 MiB of each file.
DataFacts data_facts_of(const Job& job, const std::string& tokenizer,
                        const std::function<void(double fraction)>& progress);

}  // namespace plimsoll
