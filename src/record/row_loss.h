// Declares cross entropy as a loss for each row of logits, and a sum over rows: a form that the pass slice_rows can
// cut.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <optional>

#include "plimsoll/trace.h"

namespace plimsoll {

/// Arguments of libtorch's cross_entropy_loss and nll_loss_nd behind logits and targets.
struct RowLossOptions {
  std::optional<at::Tensor> weight;  ///< weight of each class
  int64_t reduction = 0;             ///< at::Reduction
  int64_t ignore_index = -100;
  double label_smoothing = 0;
  bool of_logarithms = false;  ///< the operand has the logarithms of the softmax
};

/// Returns whether the step that is being recorded has a large linear layer with a result for each class, at most half
/// of its results unused, and the loss of `logits`, whose dimension of classes is 1, is not recorded as one for each
/// row anyway.
bool has_row_loss(const Trace& trace, const at::Tensor& logits, const RowLossOptions& options);

/// Returns the cross entropy of class indices. It is libtorch's up to rounding: NaN for a mean over no token.
at::Tensor row_loss(const at::Tensor& logits, const at::Tensor& targets, const RowLossOptions& options);

}  // namespace plimsoll
