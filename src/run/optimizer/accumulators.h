// Declares sums of the gradients of micro batches and ranks, each added by an autograd hook as soon as it is
// complete.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <functional>
#include <vector>

#include "plimsoll/options.h"
#include "run/optimizer/optimizer.h"

namespace plimsoll {

/// A set of hooks. While it lives, backward calls `complete(i, parameter)` when the gradient of `parameters[i]` is
/// complete.
class GradientHooks {
 public:
  using Complete = std::function<void(size_t index, const at::Tensor& parameter)>;
  GradientHooks(std::vector<at::Tensor> parameters, Complete complete);
  ~GradientHooks();
  GradientHooks(const GradientHooks&) = delete;
  GradientHooks& operator=(const GradientHooks&) = delete;

 private:
  std::vector<at::Tensor> parameters_;
  Complete complete_;
};

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
