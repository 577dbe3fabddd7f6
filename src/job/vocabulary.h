// How many rows the embedding has: a question to the job and to its tokenizer.
#pragma once

#include <cstdint>

#include "data/tokenizers/tokenizer.h"
#include "plimsoll/job.h"

namespace plimsoll {

/// model.vocab_size (model.llm.vocab_size of models that hold a language model), or where that is `auto` the
/// tokenizer's vocabulary rounded up to a multiple of 64 (matrix kernels like such sizes). Throws UserError where the
/// tokenizer has more tokens than the model has rows.
int64_t vocabulary_of(const Job& job, const Tokenizer& tokenizer);

/// The same from the job alone. The tokenizer's file is read only where the vocabulary is `auto`: a job with a size of
/// its own can be planned on a machine that does not have the file.
int64_t vocabulary_of(const Job& job);

}  // namespace plimsoll
