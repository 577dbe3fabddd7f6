#include "train/optimizer.h"

#include <ATen/ATen.h>

#include "ops/optimizer/counter_random.h"
#include "ops/optimizer/ops.h"
#include "plimsoll/error.h"
#include "train/optimizer/muon.h"

namespace plimsoll {
namespace {

constexpr double kClipThreshold = 1.0;  // Adafactor's d, section 6 of the paper

}  // namespace

std::vector<NamedState> Optimizer::make_state(const std::vector<OptimizedParameter>& parameters) {
  std::vector<NamedState> named;
  for (const OptimizedParameter& parameter : parameters) {
    const auto seed = static_cast<int64_t>(ops::mixed(ops::mixed(seed_) ^ states_.size()));
    states_.push_back(optimizer::make_parameter_state(config_, parameter, seed, named));
  }
  const auto device = parameters.empty() ? at::Device(at::kCPU) : parameters[0].value.device();
  step_ = at::zeros({}, at::TensorOptions().dtype(at::kFloat).device(device));
  named.push_back({"optimizer.step", step_});
  return named;
}

UpdateOutputs Optimizer::measure(const std::vector<OptimizedParameter>& parameters, const UpdateInputs& inputs) const {
  std::vector<at::Tensor> norms;
  for (const OptimizedParameter& parameter : parameters) {
    if (!parameter.gradient.defined()) continue;
    norms.push_back(parameter.gradient_scales.defined()
                        ? ops::block_norm(parameter.gradient, parameter.gradient_scales)
                        : at::linalg_vector_norm(parameter.gradient, 2, {}, false, at::kFloat));
  }
  check(!norms.empty(), "no parameter has a gradient");
  const at::Tensor norm = at::linalg_vector_norm(at::stack(norms), 2) / inputs.loss_scale;
  // Infinity x 0 and NaN are NaN, the only value that is not itself. Compared with itself, not with a number, for which
  // the kernel would take scratch.
  const at::Tensor zero = norm * 0;
  return {norm, zero.ne(zero).to(at::kFloat)};
}

at::Tensor Optimizer::grad_scale(const at::Tensor& gradient_norm, const at::Tensor& loss_scale) const {
  if (max_grad_norm_ <= 0) return loss_scale;
  return loss_scale / (max_grad_norm_ / (gradient_norm + 1e-6)).clamp_max(1.0);
}

UpdateOutputs Optimizer::update(const std::vector<OptimizedParameter>& parameters, const UpdateInputs& inputs) {
  const UpdateOutputs outputs = measure(parameters, inputs);
  const at::Tensor scale = grad_scale(outputs.gradient_norm, inputs.loss_scale);
  for (size_t i = 0; i < parameters.size(); ++i)
    if (parameters[i].gradient.defined()) update_one(parameters[i], i, {inputs.learning_rate, scale, outputs.skipped});
  count_step(outputs.skipped);
  return outputs;
}

void Optimizer::update_one(const OptimizedParameter& parameter, size_t index, const UpdateScalars& scalars) {
  const optimizer::ParameterState& state = states_.at(index);
  const double decay = parameter.value.dim() >= 2 ? config_.weight_decay : 0.0;
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
