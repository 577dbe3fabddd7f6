#include "train/micro_batches.h"

#include <ATen/ops/from_blob.h>

#include <algorithm>

#include "data/batch.h"
#include "fine_tuning/fine_tune.h"
#include "ops/libtorch_types.h"
#include "plimsoll/error.h"
#include "plimsoll/plan_job.h"

namespace plimsoll {
namespace {

constexpr int64_t kIgnoredTarget = -100;

/// Marks the first `samples` samples of the batch as counted.
void add_counted(Batch& batch, int64_t samples) {
  std::vector<float> counts(static_cast<size_t>(batch.samples), 0.0f);
  std::fill_n(counts.begin(), samples, 1.0f);
  const auto* bytes = reinterpret_cast<const std::byte*>(counts.data());
  batch.fields.push_back(
      {kSampleMask, DType::float32, {batch.samples}, {bytes, bytes + counts.size() * sizeof(float)}});
}

/// Returns the targets, which can be set to "ignored"; nullptr if samples have none.
BatchField* targets_of(Batch& batch) {
  const auto found = std::ranges::find(batch.fields, "targets", &BatchField::name);
  return found != batch.fields.end() && found->dtype == DType::int64 ? &*found : nullptr;
}

/// Returns the number of samples that evaluations of the job read if there are as many.
int64_t evaluated_samples(const Job& job, int64_t micro_batch) {
  if (!job.eval_batches) return kEvaluatedSamples;
  if (*job.eval_batches == kAllBatches) return kAllBatches;
  const __int128 all = static_cast<__int128>(*job.eval_batches) * job.ranks.count *
                       std::max(job.batch_size.value_or(micro_batch), micro_batch);
  return static_cast<int64_t>(std::min<__int128>(all, kAllBatches));
}

}  // namespace

MicroBatch tensors_over(Batch& batch) {
  MicroBatch tensors;
  for (BatchField& field : batch.fields)
    tensors[field.name] =
        at::from_blob(field.bytes.data(), field.sizes, at::TensorOptions().dtype(scalar_type_of(field.dtype)));
  return tensors;
}

std::vector<SyntheticField> synthetic_fields(const std::vector<InputSpec>& inputs) {
  std::vector<SyntheticField> fields;
  for (const InputSpec& input : inputs)
    if (input.name != kSampleMask)
      fields.push_back({input.name, dtype_of(input.dtype), {input.sizes.begin() + 1, input.sizes.end()}, input.values});
  return fields;
}

bool uses_sample_mask(const std::vector<InputSpec>& inputs) {
  return std::ranges::find(inputs, kSampleMask, &InputSpec::name) != inputs.end();
}

MicroBatches::MicroBatches(const Job& job, std::unique_ptr<SampleSource> source, bool counted)
    : config_(job.data),
      samples_(job.micro_batch_size.value()),
      last_samples_(last_micro_batch_of(job)),
      per_step_(last_samples_ > 0 ? job.gradient_accumulation_steps->at(0) : 1),
      source_(std::move(source)),
      counted_(counted),
      to_bfloat16_(input_type(options_of(job), at::kFloat) == at::kBFloat16),
      order_(source_->samples(Split::train), job.seed, job.data.shuffle) {
  const int64_t windows = source_->samples(Split::validation);
  // The number of windows does not depend on the micro batch, so that the loss of a job does not depend on its budget.
  evaluation_windows_ = std::min(windows, evaluated_samples(job, samples_));
  // Samples are often in order of their class or their file. A part of them is therefore drawn at random, always the
  // same.
  if (windows > 0) evaluation_order_.emplace(windows, 0, /*shuffle=*/counted_ && evaluation_windows_ < windows);
  if (evaluation_windows_ == 0 || counted_) return;
  Batch first = source_->batch(WindowOrder(windows, 0, /*shuffle=*/false), Split::validation, 0, 1);
  if (targets_of(first)) return;
  // Only whole micro batches can be read, and one at least if there are as many samples.
  if (!job.eval_batches) evaluation_windows_ = std::min(windows, std::max(evaluation_windows_, samples_));
  evaluation_windows_ -= evaluation_windows_ % samples_;
}

void MicroBatches::start(int64_t position, int64_t ranks, int64_t rank) {
  LoaderOptions options;
  options.num_workers = config_.num_workers;
  options.prefetch = config_.prefetch;
  options.samples_per_batch = samples_;
  options.samples_of_last = last_samples_;
  options.batches_per_step = per_step_;
  options.start = position;
  options.stride = ranks;
  options.offset = rank;
  loader_.reset();
  loader_.emplace(
      [this](int64_t first, int64_t samples) {
        return complete(source_->batch(order_, Split::train, first, samples), samples);
      },
      options);
}

Batch MicroBatches::complete(Batch batch, int64_t counted) const {
  if (counted_) add_counted(batch, counted);
  if (to_bfloat16_) cast_to_bfloat16(batch);
  return batch;
}

Batch MicroBatches::next() {
  check(loader_.has_value(), "start() was not called");
  return loader_->next();
}

std::vector<Baseline> MicroBatches::baselines() const {
  std::vector<int64_t> evaluated;
  for (int64_t i = 0; i < evaluation_windows_; ++i) evaluated.push_back(evaluation_order_->index(i));
  return source_->baselines(evaluated);
}

Batch MicroBatches::evaluation_batch(int64_t index, int64_t& windows) const {
  check(index >= 0 && index < evaluation_batches(), "no such evaluation batch");
  const int64_t first = index * samples_;
  windows = std::min(samples_, evaluation_windows_ - first);
  // The order repeats, so the additional rows have valid tokens.
  Batch batch = complete(source_->batch(*evaluation_order_, Split::validation, first, samples_), windows);
  if (counted_ || windows == samples_) return batch;
  BatchField* field = targets_of(batch);
  check(field != nullptr, "only targets can be ignored");
  auto* targets = reinterpret_cast<int64_t*>(field->bytes.data());
  std::fill(targets + windows * config_.sequence_length, targets + samples_ * config_.sequence_length, kIgnoredTarget);
  return batch;
}

}  // namespace plimsoll
