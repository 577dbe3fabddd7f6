// Sums of the gradients of all ranks and micro batches, in the order of the micro batches of the whole step: filled as
// soon as each gradient is complete, so that the gradient itself lives no longer than that.
#pragma once

#include <vector>

#include "plimsoll/options.h"
#include "run/optimizer/gradient_hooks.h"
#include "run/optimizer/optimizer.h"

namespace plimsoll {

/// While it lives, backward adds each parameter's gradient of all ranks to this rank's slice of the sum, or to the
/// whole sum where the parameter is not sliced, and drops it.
class ExchangedGradients {
 public:
  /// `parameters` live as long as this. `dtype`: as_gradients or float32. Throws UserError for the others, whose sums
  /// are rounded at random.
  ExchangedGradients(const std::vector<OptimizedParameter>& parameters, AccumulatorDtype dtype);
  ExchangedGradients(const ExchangedGradients&) = delete;
  ExchangedGradients& operator=(const ExchangedGradients&) = delete;

  /// Before the backward of the first micro batch of a step, and of each further one.
  void begin_micro_batch(bool first) { first_ = first; }

  /// By parameter: the sum, of the sizes of OptimizedParameter::value; undefined where no gradient has come.
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
