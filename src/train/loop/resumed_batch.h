// Refuses to resume a run with another batch because batch_size is read differently than when the run began.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "plimsoll/train_job.h"

namespace plimsoll {

/// Throws UserError (usage) with both meanings and how to write either, if all of this holds: the reader took the job's
/// batch_size for the micro batch, and the checkpoint's `position` after `steps` steps fits the meaning of the whole
/// step, which was used until 2026-11-23. A checkpoint of other batches is accepted: batch sizes may change. `epoch_of`
/// returns the epoch of a position; `checkpoint` names the file.
void require_same_batch_meaning(const Job& requested, const ResolvedSettings& settings, int64_t steps, int64_t position,
                                const std::function<int64_t(int64_t position)>& epoch_of,
                                const std::string& checkpoint);

}  // namespace plimsoll
