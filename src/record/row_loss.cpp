#include "record/row_loss.h"

#include <ATen/Functions.h>
#include <ATen/TensorOperators.h>
#include <ATen/core/Reduction.h>

#include <algorithm>

#include "record/loss_head.h"

namespace plimsoll {
namespace {

using at::Tensor;

// Returns the numbers by which the losses of tokens are divided: 1 or the weight of the class, 0 for ignored tokens.
Tensor shares(const Tensor& labels, const RowLossOptions& options) {
  const Tensor counted = labels.ne(options.ignore_index);
  if (!options.weight || !options.weight->defined()) return counted;
  const Tensor ignored = counted.logical_not();
  return options.weight->gather(0, labels.masked_fill(ignored, 0)).masked_fill(ignored, 0);
}

}  // namespace

bool has_row_loss(const Trace& trace, const Tensor& logits, const RowLossOptions& options) {
  if (logits.dim() < 2) return false;
  if (options.reduction == at::Reduction::None && logits.dim() == 2) return false;
  // Former segments count: the last micro batch of a step, which may be small, has the ops of the others.
  return std::ranges::any_of(trace.ops, [&](const Op& op) {
    if (op.name != "aten::mm.out" && op.name != "aten::addmm.out") return false;
    const View& result = op.arguments.back().views.at(0);
    const int64_t results = result.sizes[1], classes = logits.size(1);
    return classes <= results && results <= 2 * classes && result.sizes[0] * classes * 4 >= kMinLogitsBytes;
  });
}

Tensor row_loss(const Tensor& logits, const Tensor& targets, const RowLossOptions& options) {
  const int64_t classes = logits.size(1);
  const Tensor rows = logits.dim() == 2 ? logits : logits.movedim(1, -1).reshape({-1, classes});
  const Tensor labels = targets.reshape({-1});
  const Tensor logarithms = options.of_logarithms ? rows : at::log_softmax(rows, 1, rows.scalar_type());
  Tensor losses = at::nll_loss_nd(logarithms, labels, options.weight, at::Reduction::None, options.ignore_index);
  if (options.label_smoothing > 0) {
    const bool weighted = options.weight && options.weight->defined();
    const Tensor all = (weighted ? logarithms * *options.weight : logarithms).sum(1).neg();
    losses = losses * (1 - options.label_smoothing) + all.masked_fill(labels.eq(options.ignore_index), 0) *
                                                          (options.label_smoothing / static_cast<double>(classes));
  }
  if (options.reduction == at::Reduction::None) return losses.reshape(targets.sizes());
  // In 16 bits the sum over tokens would be rounded.
  const at::ScalarType type = losses.scalar_type();
  const bool narrow = type == at::kBFloat16 || type == at::kHalf;
  const Tensor sum = narrow ? losses.sum(at::kFloat) : losses.sum();
  const Tensor loss = options.reduction == at::Reduction::Mean ? sum / shares(labels, options).sum() : sum;
  return narrow ? loss.to(type) : loss;
}

}  // namespace plimsoll
