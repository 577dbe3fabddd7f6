#include "job/vocabulary.h"

#include <fmt/format.h>

#include "files/data_memory.h"
#include "job/keys/data_kind.h"
#include "job/keys/model_kind.h"
#include "plimsoll/error.h"
#include "plimsoll/job.h"

namespace plimsoll {
namespace {

constexpr int64_t kRowMultiple = 64;

// Returns the number of rows that the job sets for its language model, and the key for it.
std::pair<int64_t, const char*> rows_requested(Job job) {
  const auto& vocabulary = job::model_kind(job.model.type).vocabulary;
  check(vocabulary.has_value(), job.model.type + " reads no tokens");
  return {vocabulary->rows(job), vocabulary->key};
}

}  // namespace

bool is_language_model(const Job& job) {
  return job::model_kind(job.model.type).reads_token_windows;
}

int64_t& rows_of_embedding(Job& job) {
  const job::ModelKind& kind = job::model_kind(job.model.type);
  check(kind.reads_token_windows && kind.vocabulary, job.model.type + " is no language model");
  return kind.vocabulary->rows(job);
}

int64_t vocabulary_of(const Job& job, const Tokenizer& tokenizer) {
  const auto [rows, key] = rows_requested(job);
  const int64_t tokens = tokenizer.vocab_size();
  if (rows == 0) return (tokens + kRowMultiple - 1) / kRowMultiple * kRowMultiple;
  if (rows < tokens)
    throw UserError(fmt::format("{0}{1} is {2}; the tokenizer '{3}' has {4} tokens: set {1}: {4} or more, or {1}: auto",
                                job.file.empty() ? "" : job.file.string() + ": ", key, rows, tokenizer.name(), tokens));
  return rows;
}

int64_t vocabulary_of(const Job& job) {
  const int64_t rows = rows_requested(job).first;
  if (rows > 0 && (job.data.tokenizer != "bytes" || !job::data_kind(job.data.type).from_files)) return rows;
  for (const MissingFile& each : missing_data(job))
    if (each.key == "data.tokenizer_file")
      throw UserError(fmt::format("{}: {} does not exist; {}", each.key, each.file.lexically_normal().string(),
                                  remedy_for(job, each)));
  DataMemory memory(job.data.memory_budget);
  const DataMemory::Scope scope(memory);
  return vocabulary_of(job, *make_tokenizer(job.data.tokenizer, job.data.tokenizer_file));
}

}  // namespace plimsoll
