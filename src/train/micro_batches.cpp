#include "train/micro_batches.h"

#include <ATen/ops/from_blob.h>

#include <algorithm>

#include "data/text_batch.h"
#include "plimsoll/error.h"
#include "record/dtypes.h"

namespace plimsoll {
namespace {

constexpr int64_t kIgnoredTarget = -100;

int64_t* numbers_of(BatchField& field) {
  check(field.dtype == DType::int64, "text is tokens of int64");
  return reinterpret_cast<int64_t*>(field.bytes.data());
}

}  // namespace

MicroBatch tensors_over(Batch& batch) {
  MicroBatch tensors;
  for (BatchField& field : batch.fields)
    tensors[field.name] =
        at::from_blob(field.bytes.data(), field.sizes, at::TensorOptions().dtype(scalar_type_of(field.dtype)));
  return tensors;
}

MicroBatches::MicroBatches(const Job& job, const Tokenizer& tokenizer, const TextDataset::Progress& progress)
    : config_(job.data),
      samples_(job.micro_batch_size.value()),
      last_samples_(last_micro_batch_of(job)),
      per_step_(last_samples_ > 0 ? job.gradient_accumulation_steps->at(0) : 1),
      dataset_(job.data, tokenizer, progress),
      order_(dataset_.windows(Split::train), job.seed, job.data.shuffle) {
  const int64_t windows = dataset_.windows(Split::validation);
  // As many windows whatever the micro batch is: the loss of a job does not depend on its budget.
  evaluation_windows_ = std::min(job.eval_batches * std::max(job.batch_size.value_or(samples_), samples_), windows);
}

void MicroBatches::start(int64_t position) {
  LoaderOptions options;
  options.num_workers = config_.num_workers;
  options.prefetch = config_.prefetch;
  options.samples_per_batch = samples_;
  options.samples_of_last = last_samples_;
  options.batches_per_step = per_step_;
  options.start = position;
  loader_.reset();
  loader_.emplace([this](int64_t first,
                         int64_t samples) { return make_text_batch(dataset_, order_, Split::train, first, samples); },
                  options);
}

Batch MicroBatches::next() {
  check(loader_.has_value(), "start() was not called");
  return loader_->next();
}

Batch MicroBatches::evaluation_batch(int64_t index, int64_t& windows) const {
  check(index >= 0 && index < evaluation_batches(), "no such evaluation batch");
  const int64_t count = dataset_.windows(Split::validation), first = index * samples_;
  windows = std::min(samples_, evaluation_windows_ - first);
  // The order goes round, so that the rows that fill up hold valid tokens.
  Batch batch = make_text_batch(dataset_, WindowOrder(count, 0, /*shuffle=*/false), Split::validation, first, samples_);
  int64_t* targets = numbers_of(batch.fields.at(1));
  std::fill(targets + windows * config_.sequence_length, targets + samples_ * config_.sequence_length, kIgnoredTarget);
  return batch;
}

}  // namespace plimsoll
