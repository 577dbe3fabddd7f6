// Declares the keys of a job as text: those that must be equal on all ranks of a run, and those that a checkpoint
// stores.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "data/text/tokenizer.h"
#include "plimsoll/job.h"

namespace plimsoll::job {

/// Returns the values of the keys that decide the results of a run and its exchanges, by key. Files of the data and
/// weights count by their names, because hosts may have them in other folders. Budgets, threads and the log may differ
/// between ranks. A value has at most 100 bytes; a longer one is replaced by its beginning and a hash.
std::map<std::string, std::string> shared_keys(const Job& job);

/// Returns the lines "KEY VALUE" of shared_keys(), for require_same_keys().
std::string shared_keys_text(const Job& job);

/// Throws UserError (usage) if a rank has another job than rank 0. It names up to four keys, the rank and both values.
/// `texts`: shared_keys_text() of each rank.
void require_same_keys(const std::vector<std::string>& texts);

/// Returns the settings that a resumed job must share with the checkpoint: the model without its dropout, the
/// precision, the optimizer's name, the tokenizer, the length of a window (the position in the data counts windows),
/// the seed. Learning rate, schedule, batch sizes and budget may change. The data are compared by further facts
/// (train/job_data.h). `job` has its vocabulary pinned. A precision that is still open is left out. `tokenizer`:
/// nullptr for data that are not text. Frozen, adapted and quantized parts show in the tensors; of adapters, the
/// settings also have the scale that they were trained with.
std::map<std::string, std::string> origin_of(const Job& job, const Tokenizer* tokenizer);

}  // namespace plimsoll::job
