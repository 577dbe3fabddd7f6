// Declares the settings that a checkpoint stores of its job: text, by key of the job file.
#pragma once

#include <map>
#include <string>

#include "data/tokenizers/tokenizer.h"
#include "plimsoll/job.h"

namespace plimsoll::job {

/// Returns the settings that a resumed job must share with the checkpoint: the model without its dropout, the
/// precision, the optimizer's name, the tokenizer, the length of a window (the position in the data counts windows),
/// the seed. Learning rate, schedule, batch sizes and budget may change. The data are compared by further facts
/// (train/job_data_facts.h). `job` has its vocabulary pinned. A precision that is still open is left out. `tokenizer`:
/// nullptr for data that are not text. Frozen, adapted and quantized parts show in the tensors; of adapters, the
/// settings also have the scale that they were trained with.
std::map<std::string, std::string> origin_of(const Job& job, const Tokenizer* tokenizer);

}  // namespace plimsoll::job
