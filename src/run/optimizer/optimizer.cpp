#include "run/optimizer/optimizer.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>

#include "base/hash.h"
#include "collectives/exchange_support.h"
#include "ops/optimizer/gradient_norm.h"
#include "ops/optimizer/ops.h"
#include "plimsoll/error.h"

namespace plimsoll {
namespace {

constexpr double kClipThreshold = 1.0;  // Adafactor's d, section 6 of the paper

}  // namespace

std::vector<NamedState> Optimizer::make_state(const std::vector<OptimizedParameter>& parameters) {
  std::vector<NamedState> named;
  for (const OptimizedParameter& parameter : parameters) {
    const auto seed = static_cast<int64_t>(splitmix64(splitmix64(seed_) ^ states_.size()));
    states_.push_back(optimizer::make_parameter_state(config_, parameter, seed, named));
  }
  const auto device = parameters.empty() ? at::Device(at::kCPU) : parameters[0].value.device();
  step_ = at::zeros({}, at::TensorOptions().dtype(at::kFloat).device(device));
  named.push_back({"optimizer.step", step_});
  return named;
}

void Optimizer::update_one(const OptimizedParameter& parameter, size_t index, const UpdateScalars& scalars) {
  const optimizer::ParameterState& state = states_.at(index);
  const double decay = parameter.model_tensor().dim() >= 2 ? config_.weight_decay : 0.0;
  const ops::UpdatedTensors tensors{
      parameter.value, state.companion, {parameter.gradient, parameter.gradient_scales}, state.rounding};
  const ops::StepScalars step{scalars.learning_rate, scalars.grad_scale, scalars.skipped};
  switch (state.kind) {
    case optimizer::Kind::adamw:
      return ops::adamw_(tensors, state.first, state.second, step_, step, config_.beta1, config_.beta2, decay,
                         config_.eps);
    case optimizer::Kind::lion:
      return ops::lion_(tensors, state.first, step_, step, config_.beta1, config_.beta2, decay);
    case optimizer::Kind::sgd:
      return ops::sgd_(tensors, state.first, step_, step, config_.momentum, decay);
    case optimizer::Kind::adafactor:
      return ops::adafactor_(tensors, state.first.values, state.second.values, step_, step, kClipThreshold, decay);
    case optimizer::Kind::muon:
      return optimizer::muon_(tensors, state.first, step_, step, config_.momentum, decay);
  }
  throw InternalError("no such optimizer");
}

void Optimizer::count_step(const at::Tensor& skipped) {
  step_.add_(1 - skipped);
}

}  // namespace plimsoll

namespace plimsoll::optimizer {

at::Tensor orthogonal(const at::Tensor& matrix) {
  constexpr double a = 3.4445, b = -4.7750, c = 2.0315;
  constexpr int steps = 5;
  const bool wide = matrix.size(0) <= matrix.size(1);
  at::Tensor x = matrix / (at::linalg_vector_norm(matrix, 2, {}, false, at::kFloat) + 1e-7);
  // X <- a X + (b A + c A A) X with A = X X'. A tall matrix uses A = X' X from the other side, because A is then the
  // smaller one.
  for (int i = 0; i < steps; ++i) {
    const at::Tensor product = wide ? at::mm(x, x.t()) : at::mm(x.t(), x);
    const at::Tensor factor = at::addmm(product, product, product, b, c);
    x = wide ? at::addmm(x, factor, x, a, 1) : at::addmm(x, x, factor, a, 1);
  }
  return x;
}

void muon_(const ops::UpdatedTensors& tensors, const ops::Packed& momentum, const at::Tensor& step,
           const ops::StepScalars& scalars, double decay_of_momentum, double weight_decay) {
  const at::Tensor& parameter = tensors.parameter;
  const at::ScalarType type = parameter.element_size() == 2 ? at::kBFloat16 : at::kFloat;
  const at::Tensor moved =
      ops::nesterov_momentum_(tensors.gradient, momentum, step, scalars, decay_of_momentum, type, tensors.rounding);
  const int64_t rows = parameter.size(0), columns = parameter.numel() / rows;
  const at::Tensor direction = orthogonal(moved.view({rows, columns})).view(parameter.sizes());
  const double factor = 0.2 * std::sqrt(static_cast<double>(std::max(rows, columns)));
  // SGD with that direction: the factor multiplies the learning rate and divides the decay.
  ops::UpdatedTensors update = tensors;
  update.gradient = {direction};
  const ops::StepScalars scaled{scalars.learning_rate * factor, at::ones_like(scalars.grad_scale), scalars.skipped};
  ops::sgd_(update, {}, step, scaled, 0, weight_decay / factor);
}

}  // namespace plimsoll::optimizer

namespace plimsoll {

std::vector<at::Tensor> UpdateStep::make_scalars(const std::vector<OptimizedParameter>& parameters) {
  const auto device = parameters.empty() ? at::Device(at::kCPU) : parameters[0].value.device();
  const auto options = at::TensorOptions().dtype(at::kFloat).device(device);
  norms_ = at::zeros({static_cast<int64_t>(parameters.size())}, options);
  total_ = at::zeros({}, options);
  grad_scale_ = at::zeros({}, options);
  skipped_ = at::zeros({}, options);
  std::vector<at::Tensor> made{norms_, total_, grad_scale_, skipped_};
  block_sums_.clear();
  int64_t blocks = 0, ranks = 0;
  const auto add = [&] {
    if (blocks > 0) block_sums_.push_back(at::zeros({ranks * blocks}, options.dtype(at::kDouble)));
    blocks = 0;
  };
  for (const OptimizedParameter& parameter : parameters) {
    if (!parameter.slice) continue;
    ranks = parameter.slice->ranks;
    blocks += parameter.slice->elements / ops::kNormBlock;
    if (!waits_for_all()) add();
  }
  add();
  made.insert(made.end(), block_sums_.begin(), block_sums_.end());
  return made;
}

// Norms of sliced gradients. They need the block sums of all ranks, which are exchanged for all gradients in one
// exchange, or for each gradient.
class UpdateStep::SlicedNorms {
 public:
  explicit SlicedNorms(UpdateStep& step) : step_(step) {}

  void add(const OptimizedParameter& parameter, int64_t index) {
    const optimizer::ParameterSlice& slice = *parameter.slice;
    const int64_t blocks = slice.elements / ops::kNormBlock;
    ranks_ = slice.ranks;
    const at::Tensor& sums = step_.block_sums_.at(next_);
    ops::gradient_block_sums_(sums, parameter.gradient, slice.rank * sums.numel() / ranks_ + begun_);
    index_.push_back(index);
    first_.push_back(begun_);
    blocks_.push_back(blocks);
    begun_ += blocks;
    if (!step_.waits_for_all()) finish();
  }

  // Skips a parameter without a gradient.
  void skip() {
    if (!step_.waits_for_all()) ++next_;
  }

  void finish() {
    if (index_.empty()) return;
    const at::Tensor& sums = step_.block_sums_.at(next_++);
    all_gather_(sums, ranks_);
    ops::norms_of_blocks_(step_.norms_, step_.skipped_, sums, ranks_, index_, first_, blocks_);
    index_.clear(), first_.clear(), blocks_.clear();
    begun_ = 0;
  }

 private:
  UpdateStep& step_;
  size_t next_ = 0;  // index into block_sums_
  int64_t begun_ = 0, ranks_ = 1;
  std::vector<int64_t> index_, first_, blocks_;
};

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
  if (!any)
    throw UserError(
        "no parameter has a gradient: the step's loss depends on parameters only through operators whose gradient is "
        "zero");

  piece(Kind::begin);
  SlicedNorms sliced(*this);
  skipped_.zero_();
  grad_scale_.copy_(inputs.loss_scale);
  for (int64_t i = 0; i < count; ++i) {
    if (!parameters[i].gradient.defined()) {
      if (parameters[i].slice) sliced.skip();
      continue;
    }
    piece(Kind::norm, i);
    const OptimizedParameter& parameter = parameters[i];
    if (parameter.slice) {
      sliced.add(parameter, i);
      continue;
    }
    const bool packed = parameter.gradient_scales.defined();
    ops::gradient_norm_(norms_, skipped_,
                        packed ? ops::block_norm(parameter.gradient, parameter.gradient_scales) : parameter.gradient,
                        i);
  }
  piece(Kind::total);
  sliced.finish();
  // Computed in float64, because the squares of large finite norms would overflow in float32.
  total_.copy_(at::linalg_vector_norm(norms_, 2, at::IntArrayRef{}, false, at::kDouble) / inputs.loss_scale);
  if (waits_for_all()) piece(Kind::clip);
  if (max_grad_norm_ > 0) {
    // Not-a-number if the total norm is not finite, although each single norm was.
    const at::Tensor zero = total_ * 0;
    skipped_.copy_(at::maximum(skipped_, zero.ne(zero).to(at::kFloat)));
    grad_scale_.div_((max_grad_norm_ / (total_ + 1e-6)).clamp_max(1.0));
  }
  for (int64_t i = 0; i < count; ++i) {
    if (!parameters[i].gradient.defined()) continue;
    piece(Kind::update, i);
    optimizer_.update_one(parameters[i], i, {inputs.learning_rate, grad_scale_, skipped_});
    if (parameters[i].slice && !parameters[i].slice->apart)
      all_gather_(parameters[i].slice->padded, parameters[i].slice->ranks);
  }
  piece(Kind::finish);
  optimizer_.count_step(skipped_);
  return {total_, skipped_};
}

}  // namespace plimsoll
