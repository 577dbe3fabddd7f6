#include "run/optimizer/optimizer.h"

#include <ATen/ATen.h>

#include "base/hash.h"
#include "ops/optimizer/ops.h"
#include "plimsoll/error.h"
#include "run/optimizer/muon.h"

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
