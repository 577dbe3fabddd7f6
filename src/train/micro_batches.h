// A job's samples as micro batches: what the training loop reads.
#pragma once

#include <ATen/core/Tensor.h>

#include <algorithm>
#include <map>
#include <memory>
#include <optional>
#include <string>

#include "data/batch.h"
#include "data/loader.h"
#include "data/sample_source.h"
#include "data/sampler.h"
#include "data/text/text_dataset.h"
#include "data/tokenizers/tokenizer.h"
#include "plimsoll/job.h"
#include "plimsoll/training.h"

namespace plimsoll {

/// Input tensors by name, as Training wants them.
using MicroBatch = std::map<std::string, at::Tensor>;

/// The batch's fields as tensors over its bytes: nothing is copied, and the batch must outlive them.
MicroBatch tensors_over(Batch& batch);

/// The inputs of a step as synthetic data have them.
std::vector<SyntheticField> synthetic_fields(const std::vector<InputSpec>& inputs);

/// Bytes of host memory that the micro batches take which are prepared ahead, in work, or being read.
int64_t batches_ahead_bytes(const DataConfig& data, const std::vector<InputSpec>& inputs);

/// What they leave of a budget of host memory; 0 where there is none.
int64_t less_batches_ahead(int64_t host_memory_budget, const DataConfig& data, const std::vector<InputSpec>& inputs);

/// Whether the step asks which samples count (kCounted).
bool asks_what_counts(const std::vector<InputSpec>& inputs);

class MicroBatches {
 public:
  /// `counted`: batches bring kCounted.
  MicroBatches(const Job& job, std::unique_ptr<SampleSource> source, bool counted = false);
  /// Opens the job's text, tokenising what no earlier job has. job.micro_batch_size must be set.
  MicroBatches(const Job& job, const Tokenizer& tokenizer, const TextDataset::Progress& progress);

  /// From here on next() gives micro batches from window `position` on, where a step begins, counted over all epochs,
  /// prepared ahead by threads that persist over epochs. Rank r of several gets micro batches r, r + ranks, …: no
  /// window twice, none left out.
  void start(int64_t position, int64_t ranks = 1, int64_t rank = 0);
  Batch next();

  /// The epoch of the window at `position`.
  int64_t epoch(int64_t position) const { return order_.epoch(position); }

  /// Micro batches of an evaluation, which reads job.eval_batches times job.batch_size windows, or all where there are
  /// fewer; 0: no validation data. Samples of which nothing says that they do not count are read in whole micro batches
  /// only.
  int64_t evaluation_batches() const { return (evaluation_windows_ + samples_ - 1) / samples_; }
  /// How many windows evaluation batch `index` has.
  int64_t evaluation_windows(int64_t index) const { return std::min(samples_, evaluation_windows_ - index * samples_); }
  /// Validation windows, the same ones every time: in order, or where they count one by one and are not all read,
  /// drawn. `windows` says how many are in it: the last micro batch may be filled up with rows that do not count: their
  /// kCounted is 0, or their targets are all -100.
  Batch evaluation_batch(int64_t index, int64_t& windows) const;

  const SampleSource& source() const { return *source_; }
  /// Returns the source's baselines on the samples that an evaluation reads, after the run has read `position` windows.
  std::vector<Baseline> baselines(int64_t position) const;

 private:
  /// What the device is to have of samples, `counted` of which count.
  Batch complete(Batch batch, int64_t counted) const;

  DataConfig config_;
  int64_t samples_;       // of a micro batch
  int64_t last_samples_;  // of a step's last one, where it is smaller; 0: all are alike
  int64_t per_step_;      // micro batches of a step, where the last one is smaller
  std::unique_ptr<SampleSource> source_;
  bool counted_;
  bool to_bfloat16_;  // floating-point inputs, which the step has in it
  WindowOrder order_;
  int64_t evaluation_windows_ = 0;
  std::optional<WindowOrder> evaluation_order_;  // where there is something to evaluate on
  std::optional<Loader> loader_;                 // last: its threads read the others
};

}  // namespace plimsoll
