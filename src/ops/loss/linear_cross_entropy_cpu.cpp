#include "ops/loss/linear_cross_entropy_cpu.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>

#include <algorithm>

#include "ops/loss/linear_cross_entropy_blocks.h"
#include "ops/loss/loss_kernel.h"
#include "ops/op_support.h"

namespace plimsoll::ops {
namespace {

using at::Tensor;

/// Returns the number of targets that count. Throws UserError for a target that is no row of the weight.
int64_t count_targets(const Tensor& targets, int64_t vocabulary, int64_t ignore_index) {
  const auto* target = targets.const_data_ptr<int64_t>();
  int64_t counted = 0;
  for (int64_t i = 0; i < targets.numel(); ++i) {
    const int64_t value = target[i * targets.stride(0)];
    if (value == ignore_index) continue;
    require(value >= 0 && value < vocabulary, "plimsoll::linear_cross_entropy", "target ", value, " at token ", i,
            " is outside 0..", vocabulary - 1, " (the rows of weight) and is not ignore_index, ", ignore_index);
    ++counted;
  }
  return counted;
}

template <typename T>
double total(const Tensor& values) {
  const auto* value = values.const_data_ptr<T>();
  double sum = 0;
  for (int64_t i = 0; i < values.numel(); ++i) sum += value[i];
  return sum;
}

}  // namespace

void linear_cross_entropy_cpu(const Tensor& x, const Tensor& weight, const Tensor& targets, int64_t ignore_index,
                              double softcap, const Tensor& loss, const Tensor& count, const Tensor& grad_x,
                              const Tensor& grad_weight) {
  const int64_t counted = std::max<int64_t>(1, count_targets(targets, weight.size(0), ignore_index));
  const bool in_blocks = loss_in_blocks({.tokens = x.size(0),
                                         .vocabulary = weight.size(0),
                                         .width = x.size(1),
                                         .dtype = dtype_of(x),
                                         .wants_x = false,
                                         .wants_weight = false});
  const Tensor losses = (in_blocks ? linear_cross_entropy_blocks : losses_by_libtorch)(x, weight, targets, ignore_index,
                                                                                       softcap, grad_x, grad_weight);
  const double sum = losses.scalar_type() == at::kDouble ? total<double>(losses) : total<float>(losses);
  loss.fill_(sum / static_cast<double>(counted));
  if (count.defined()) count.fill_(counted);
}

}  // namespace plimsoll::ops
