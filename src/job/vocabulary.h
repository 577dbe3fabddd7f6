// Computes the number of rows of the embedding, from the job and its tokenizer.
#pragma once

#include <cstdint>

#include "data/tokenizers/tokenizer.h"
#include "plimsoll/job.h"

namespace plimsoll {

/// Returns model.vocab_size (model.llm.vocab_size of models that contain a language model). If that is `auto`, returns
/// the tokenizer's vocabulary rounded up to a multiple of 64, a size that suits matrix kernels. Throws UserError if the
/// tokenizer has more tokens than the model has rows.
int64_t vocabulary_of(const Job& job, const Tokenizer& tokenizer);

/// Returns the number of rows from the job alone. The tokenizer's file is read only if the vocabulary is `auto`: a job
/// with an explicit size can be planned on a machine that does not have the file.
int64_t vocabulary_of(const Job& job);

}  // namespace plimsoll
