// A run is not resumed with another batch because its job file is read otherwise than when it began.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "plimsoll/train_job.h"

namespace plimsoll {

/// Where the reader took the job's batch_size for the micro batch, and the checkpoint's `steps` read as many samples,
/// `position`, as they do where it is the whole step, which it was until 2026-11-23: throws UserError (usage) that says
/// both and how to write either. A checkpoint of other batches goes on: batch sizes may change. `epoch_of` gives the
/// epoch of a position; `checkpoint` names the file.
void require_same_batch_meaning(const Job& asked, const JobSettings& settings, int64_t steps, int64_t position,
                                const std::function<int64_t(int64_t position)>& epoch_of,
                                const std::string& checkpoint);

}  // namespace plimsoll
