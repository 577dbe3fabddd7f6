#include "train/vocabulary.h"

#include <fmt/format.h>

#include "plimsoll/error.h"

namespace plimsoll {
namespace {

constexpr int64_t kRowMultiple = 64;

int64_t rows_of(const Job& job, int64_t rows, const std::string& section, const Tokenizer& tokenizer) {
  const int64_t tokens = tokenizer.vocab_size();
  if (rows == 0) return (tokens + kRowMultiple - 1) / kRowMultiple * kRowMultiple;
  if (rows < tokens)
    throw UserError(fmt::format("{}{}.vocab_size is {}; the tokenizer '{}' has {} tokens: give at least that, or auto",
                                job.file.empty() ? "" : job.file.string() + ": ", section, rows, tokenizer.name(),
                                tokens));
  return rows;
}

}  // namespace

int64_t vocabulary_of(const Job& job, const Tokenizer& tokenizer) {
  return rows_of(job, job.model.decoder.vocab_size, "model", tokenizer);
}

int64_t vocabulary_of(const Job& job) {
  return vocabulary_of(job, job.model.decoder, "model");
}

int64_t vocabulary_of(const Job& job, const DecoderConfig& model, const std::string& section) {
  if (model.vocab_size > 0 && (job.data.tokenizer != "bytes" || job.data.type == "synthetic")) return model.vocab_size;
  return rows_of(job, model.vocab_size, section, *make_tokenizer(job.data.tokenizer, job.data.tokenizer_file));
}

int64_t vocabulary_of(const Job& job, const DecoderConfig& model, const std::string& section,
                      const Tokenizer& tokenizer) {
  return rows_of(job, model.vocab_size, section, tokenizer);
}

}  // namespace plimsoll
