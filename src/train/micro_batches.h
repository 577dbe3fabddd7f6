// Reads a job's samples as micro batches for the training loop.
#pragma once

#include <ATen/core/Tensor.h>

#include <algorithm>
#include <map>
#include <memory>
#include <optional>
#include <string>

#include "data/batch.h"
#include "data/loader.h"
#include "data/sampler.h"
#include "plimsoll/job.h"
#include "plimsoll/training.h"

namespace plimsoll {

/// Input tensors of a Training, by name.
using MicroBatch = std::map<std::string, at::Tensor>;

/// Returns the batch's fields as tensors over its bytes: nothing is copied, and the batch must outlive them.
MicroBatch tensors_over(Batch& batch);

/// Returns the inputs of a step as fields of synthetic data.
std::vector<SyntheticField> synthetic_fields(const std::vector<InputSpec>& inputs);

/// Returns true if the step has the input kSampleMask, the mask of samples that count.
bool uses_sample_mask(const std::vector<InputSpec>& inputs);

class MicroBatches {
 public:
  /// job.micro_batch_size must be set. `counted`: batches contain kSampleMask.
  MicroBatches(const Job& job, std::unique_ptr<SampleSource> source, bool counted = false);

  /// Starts next() at window `position`, the first of a step, counted over all epochs. Threads that persist over epochs
  /// prepare batches ahead. Rank r of several gets micro batches r, r + ranks, …: each window is used once.
  void start(int64_t position, int64_t ranks = 1, int64_t rank = 0);
  Batch next();

  /// Returns the training samples at `samples` positions from `position` on, as next() does, without moving it.
  Batch training_batch(int64_t position, int64_t samples) const {
    return complete(source_->batch(order_, Split::train, position, samples), samples);
  }
  /// Returns the name of the training sample at `position`; "" if the source has none.
  std::string sample_name(int64_t position) const { return source_->name_of(Split::train, order_.index(position)); }
  int64_t samples_per_batch() const { return samples_; }  ///< samples of a micro batch

  /// Returns the epoch of the window at `position`.
  int64_t epoch(int64_t position) const { return order_.epoch(position); }

  /// Returns the number of micro batches of an evaluation. It reads the windows of job.eval_batches, or all if
  /// there are fewer; 0: no validation data. Samples that have no mask for samples that do not count are read in
  /// whole micro batches only.
  int64_t evaluation_batches() const { return (evaluation_windows_ + samples_ - 1) / samples_; }
  /// Returns the number of windows that an evaluation reads, over all ranks.
  int64_t evaluated() const { return evaluation_windows_; }
  /// Returns the number of windows in evaluation batch `index`.
  int64_t evaluation_windows(int64_t index) const { return std::min(samples_, evaluation_windows_ - index * samples_); }
  /// Returns a batch of validation windows, the same ones in every evaluation. They are in order, or drawn at random if
  /// they count one by one and are not all read. `windows` is set to the number of windows in it. The last micro batch
  /// may be filled with rows that do not count: their kSampleMask is 0, or their targets are all -100.
  Batch evaluation_batch(int64_t index, int64_t& windows) const;

  const SampleSource& source() const { return *source_; }
  /// Returns the source's baselines on the samples that an evaluation reads.
  std::vector<Baseline> baselines() const;

 private:
  /// Returns the batch in the form for the device; the first `counted` samples count.
  Batch complete(Batch batch, int64_t counted) const;

  DataConfig config_;
  int64_t samples_;       // samples of a micro batch
  int64_t last_samples_;  // samples of a step's last micro batch if it is smaller; 0: all have the same size
  int64_t per_step_;      // micro batches of a step, if the last one is smaller
  std::unique_ptr<SampleSource> source_;
  bool counted_;
  bool to_bfloat16_;  // true: the step has floating-point inputs in bfloat16
  WindowOrder order_;
  int64_t evaluation_windows_ = 0;
  std::optional<WindowOrder> evaluation_order_;  // set if there is something to evaluate on
  std::optional<Loader> loader_;                 // last: its threads read the others
};

}  // namespace plimsoll
