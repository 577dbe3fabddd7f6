// Declares sums of the gradients of several micro batches in a format of their own. Each gradient is added as soon as
// it is complete, so that it is freed then.
#pragma once

#include <vector>

#include "plimsoll/options.h"
#include "run/optimizer/gradient_hooks.h"
#include "run/optimizer/optimizer.h"

namespace plimsoll {

/// A set of gradient accumulators. While it lives, backward adds each parameter's gradient to its accumulator and drops
/// the gradient.
class Accumulators {
 public:
  /// `dtype` is neither as_gradients nor automatic.
  Accumulators(const std::vector<OptimizedParameter>& parameters, AccumulatorDtype dtype);
  Accumulators(const Accumulators&) = delete;
  Accumulators& operator=(const Accumulators&) = delete;

  /// Called before the backward of each micro batch; `first`: of the first one of a step.
  void begin_micro_batch(bool first) { first_ = first; }

  /// Return a parameter's sum, and its scales if the sum has 8 bits; undefined if there was no gradient.
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
