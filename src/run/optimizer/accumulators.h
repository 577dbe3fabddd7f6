// Sums of the gradients of several micro batches in a format of their own, filled as soon as each gradient is complete,
// so that the gradient itself lives no longer than that.
#pragma once

#include <vector>

#include "plimsoll/options.h"
#include "run/optimizer/gradient_hooks.h"
#include "run/optimizer/optimizer.h"

namespace plimsoll {

/// While it lives, backward adds each parameter's gradient into its accumulator and drops it.
class Accumulators {
 public:
  /// `dtype` is neither as_gradients nor automatic.
  Accumulators(const std::vector<OptimizedParameter>& parameters, AccumulatorDtype dtype);
  Accumulators(const Accumulators&) = delete;
  Accumulators& operator=(const Accumulators&) = delete;

  /// Before the backward of the first micro batch of a step, and of each further one.
  void begin_micro_batch(bool first) { first_ = first; }

  /// By parameter: the sum, and its scales where it has 8 bits; undefined where no gradient has come.
  const at::Tensor& sum(size_t index) const { return sums_[index].values; }
  const at::Tensor& scales(size_t index) const { return sums_[index].scales; }

 private:
  void add(size_t index, const at::Tensor& parameter);

  AccumulatorDtype dtype_;
  bool first_ = true;
  std::vector<ops::Packed> sums_;
  GradientHooks hooks_;
};

}  // namespace plimsoll
