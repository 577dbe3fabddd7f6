// What a job's throughput is counted in: tokens where its samples are sequences of them, otherwise samples.
#pragma once

#include <string>

#include "plimsoll/job.h"

namespace plimsoll {

inline bool is_language_model(const Job& job) {
  return job.model.type == "decoder" || job.model.type == "mamba";
}

/// Of a language model's job: where its vocabulary's size is kept.
inline int64_t& rows_of_embedding(Job& job) {
  return job.model.type == "mamba" ? job.model.mamba.vocab_size : job.model.decoder.vocab_size;
}

/// "tokens" or "samples".
inline std::string unit_of(const Job& job) {
  return is_language_model(job) ? "tokens" : "samples";
}

/// Units of a sample: of a sequence its tokens.
inline int64_t units_of_sample(const Job& job) {
  return is_language_model(job) ? job.data.sequence_length : 1;
}

/// So many samples in words: "4 x 512 tokens", "4 samples".
inline std::string samples_in_words(const Job& job, int64_t samples) {
  const std::string count = std::to_string(samples);
  return is_language_model(job) ? count + " x " + std::to_string(job.data.sequence_length) + " tokens"
                                : count + " samples";
}

}  // namespace plimsoll
