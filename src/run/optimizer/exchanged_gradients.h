// Declares sums of the gradients of all ranks and micro batches, in the order of the micro batches of the whole step.
// Each gradient is added as soon as it is complete, so that it is freed then.
#pragma once

#include <vector>

#include "plimsoll/options.h"
#include "run/optimizer/gradient_hooks.h"
#include "run/optimizer/optimizer.h"

namespace plimsoll {

/// A set of gradient sums over all ranks. While it lives, backward adds each parameter's gradient of all ranks to this
/// rank's slice of the sum, and drops it. If the parameter is not sliced, the rank has the whole sum.
class ExchangedGradients {
 public:
  /// `parameters` must outlive it. `dtype`: as_gradients or float32. Throws UserError for other dtypes, whose sums are
  /// rounded at random.
  ExchangedGradients(const std::vector<OptimizedParameter>& parameters, AccumulatorDtype dtype);
  ExchangedGradients(const ExchangedGradients&) = delete;
  ExchangedGradients& operator=(const ExchangedGradients&) = delete;

  /// Called before the backward of each micro batch; `first`: of the first one of a step.
  void begin_micro_batch(bool first) { first_ = first; }

  /// Returns a parameter's sum, with the sizes of OptimizedParameter::value; undefined if there was no gradient.
  const at::Tensor& sum(size_t index) const { return sums_[index]; }

 private:
  void add(size_t index, const at::Tensor& parameter);

  const std::vector<OptimizedParameter>& parameters_;
  AccumulatorDtype dtype_;
  bool first_ = true;
  std::vector<at::Tensor> sums_;
  GradientHooks hooks_;
};

}  // namespace plimsoll
