#include "run/optimizer/optimizer.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>

#include "base/hash.h"
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
