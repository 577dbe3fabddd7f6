// How many rows the embedding has: a question to the job and to its tokenizer.
#pragma once

#include <cstdint>
#include <string>

#include "data/tokenizer.h"
#include "plimsoll/job.h"

namespace plimsoll {

/// model.vocab_size, or where that is `auto` the tokenizer's vocabulary rounded up to a multiple of 64 (matrix kernels
/// like such sizes). Throws UserError where the tokenizer has more tokens than the model has rows.
int64_t vocabulary_of(const Job& job, const Tokenizer& tokenizer);

/// The same from the job alone. The tokenizer's file is read only where the vocabulary is `auto`: a job with a size of
/// its own can be planned on a machine that does not have the file.
int64_t vocabulary_of(const Job& job);

/// The same of a language model that is part of another, whose keys stand at `section` ("model.llm").
int64_t vocabulary_of(const Job& job, const DecoderConfig& model, const std::string& section);
int64_t vocabulary_of(const Job& job, const DecoderConfig& model, const std::string& section,
                      const Tokenizer& tokenizer);

}  // namespace plimsoll
