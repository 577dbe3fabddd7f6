#include "train/vocabulary.h"

#include <fmt/format.h>

#include "plimsoll/error.h"

namespace plimsoll {
namespace {

constexpr int64_t kRowMultiple = 64;

}  // namespace

int64_t vocabulary_of(const Job& job, const Tokenizer& tokenizer) {
  const int64_t rows = job.model.decoder.vocab_size, tokens = tokenizer.vocab_size();
  if (rows == 0) return (tokens + kRowMultiple - 1) / kRowMultiple * kRowMultiple;
  if (rows < tokens)
    throw UserError(
        fmt::format("{}model.vocab_size is {}; the tokenizer '{}' has {} tokens: give at least that, or auto",
                    job.file.empty() ? "" : job.file.string() + ": ", rows, tokenizer.name(), tokens));
  return rows;
}

int64_t vocabulary_of(const Job& job) {
  if (job.model.decoder.vocab_size > 0 && (job.data.tokenizer != "bytes" || job.data.type == "synthetic"))
    return job.model.decoder.vocab_size;
  return vocabulary_of(job, *make_tokenizer(job.data.tokenizer, job.data.tokenizer_file));
}

}  // namespace plimsoll
