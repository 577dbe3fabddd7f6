#include <algorithm>

#include "data/sample_source.h"
#include "data/text/text_dataset.h"
#include "data/tokenizers/tokenizer.h"
#include "plimsoll/error.h"
#include "plimsoll/run_length.h"

namespace plimsoll {

namespace {

std::optional<int64_t> windows_of_text(const Job& job) {
  const auto tokenizer = make_tokenizer(job.data.tokenizer, job.data.tokenizer_file);
  return TextDataset::known_training_windows(job.data, *tokenizer);
}

}  // namespace

std::optional<int64_t> known_training_samples(const Job& job) {
  if (job.data.type == "synthetic") return synthetic_samples(job.data, job.seed, {})->samples(Split::train);
  if (job.data.type != "text") return std::nullopt;
  try {
    return windows_of_text(job);
  } catch (const UserError&) {
    return std::nullopt;  // the training reports it
  }
}

void look_at_data(const Job& job) {
  if (job.data.type == "text" && missing_data(job).empty()) windows_of_text(job);
}

}  // namespace plimsoll
