#include "run/optimizer/update_step.h"

#include <ATen/ATen.h>

#include "ops/optimizer/gradient_norm.h"
#include "ops/optimizer/ops.h"
#include "plimsoll/error.h"

namespace plimsoll {

std::vector<at::Tensor> UpdateStep::make_scalars(const std::vector<OptimizedParameter>& parameters) {
  const auto device = parameters.empty() ? at::Device(at::kCPU) : parameters[0].value.device();
  const auto options = at::TensorOptions().dtype(at::kFloat).device(device);
  norms_ = at::zeros({static_cast<int64_t>(parameters.size())}, options);
  total_ = at::zeros({}, options);
  grad_scale_ = at::zeros({}, options);
  skipped_ = at::zeros({}, options);
  return {norms_, total_, grad_scale_, skipped_};
}

UpdateOutputs UpdateStep::run(const std::vector<OptimizedParameter>& parameters, const UpdateInputs& inputs,
                              const OnPiece& on_piece) {
  using Kind = UpdatePiece::Kind;
  const auto piece = [&](Kind kind, int64_t index = -1) {
    if (on_piece) on_piece(kind, index);
  };
  const auto count = static_cast<int64_t>(parameters.size());
  check(norms_.defined() && norms_.numel() == count, "the scalars of these parameters are made first");
  bool any = false;
  for (const OptimizedParameter& parameter : parameters) any = any || parameter.gradient.defined();
  check(any, "no parameter has a gradient");

  piece(Kind::begin);
  skipped_.zero_();
  grad_scale_.copy_(inputs.loss_scale);
  for (int64_t i = 0; i < count; ++i) {
    if (!parameters[i].gradient.defined()) continue;
    piece(Kind::norm, i);
    const OptimizedParameter& parameter = parameters[i];
    const bool packed = parameter.gradient_scales.defined();
    ops::gradient_norm_(norms_, skipped_,
                        packed ? ops::block_norm(parameter.gradient, parameter.gradient_scales) : parameter.gradient,
                        i);
  }
  piece(Kind::total);
  // In float64: the squares of large norms that are finite would not be.
  total_.copy_(at::linalg_vector_norm(norms_, 2, at::IntArrayRef{}, false, at::kDouble) / inputs.loss_scale);
  if (max_grad_norm_ > 0 || overflows_) piece(Kind::clip);
  if (max_grad_norm_ > 0) {
    // Not a number where the norm is not finite: each was, their sum is not.
    const at::Tensor zero = total_ * 0;
    skipped_.copy_(at::maximum(skipped_, zero.ne(zero).to(at::kFloat)));
    grad_scale_.div_((max_grad_norm_ / (total_ + 1e-6)).clamp_max(1.0));
  }
  for (int64_t i = 0; i < count; ++i) {
    if (!parameters[i].gradient.defined()) continue;
    piece(Kind::update, i);
    optimizer_.update_one(parameters[i], i, {inputs.learning_rate, grad_scale_, skipped_});
  }
  piece(Kind::finish);
  optimizer_.count_step(skipped_);
  return {total_, skipped_};
}

}  // namespace plimsoll
