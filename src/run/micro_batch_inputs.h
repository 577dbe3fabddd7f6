// Declares the inputs of a step, which micro batches are copied to.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <map>
#include <string>

#include "plimsoll/trace.h"
#include "plimsoll/training.h"
#include "run/executor/executor.h"

namespace plimsoll {

class MicroBatchInputs {
 public:
  using MicroBatch = std::map<std::string, at::Tensor>;

  MicroBatchInputs(const Step& step, const TrainingOptions& options);

  /// Returns true if a step may end with a smaller micro batch.
  bool ragged_steps() const { return last_samples_ > 0; }
  /// Returns the samples of the other micro batches, if ragged_steps().
  int64_t samples() const { return samples_; }
  /// Returns true if the batch is the smaller last micro batch that was recorded. If its tensors disagree, bind()
  /// reports it.
  bool is_remainder(const MicroBatch& batch) const;

  /// Copies a batch to the inputs of the executor's plan. `rows` > 0: to the first `rows` rows of every input. Throws
  /// UserError for a tensor that is missing or has another size or type than declared. On other devices than
  /// the CPU throws UserError (failure) for an index that is too large: a device's kernel would find it later, without
  /// a name, and the device would be lost for the program.
  void bind(Executor& executor, const Trace& trace, const MicroBatch& batch, int64_t rows = 0) const;

 private:
  void require_in_range(const std::string& name, const at::Tensor& values) const;

  std::map<std::string, c10::ScalarType> types_;  // declared types; in memory they may be narrower
  std::map<std::string, int64_t> bounds_;         // upper bounds of whole numbers, by input
  int64_t last_samples_;                          // samples of a step's smaller last micro batch; 0: all are alike
  int64_t samples_;
};

}  // namespace plimsoll
