#include "train/optimizer.h"

#include <ATen/ATen.h>

#include "plimsoll/error.h"

namespace plimsoll {

std::vector<NamedState> Optimizer::make_state(const std::vector<OptimizedParameter>& parameters) {
  if (config_.name != "adamw" && config_.name != "sgd")
    throw UserError("optimizer.name is '" + config_.name + "'; allowed are adamw and sgd");
  std::vector<NamedState> state;
  const auto zeros = [&](const std::string& kind, const OptimizedParameter& parameter) {
    at::Tensor tensor = at::zeros(parameter.value.sizes(), parameter.value.options().requires_grad(false));
    state.push_back({"optimizer." + kind + "." + parameter.name, tensor});
    return tensor;
  };
  for (const OptimizedParameter& parameter : parameters) {
    if (config_.name == "adamw") {
      first_.push_back(zeros("exp_avg", parameter));
      second_.push_back(zeros("exp_avg_sq", parameter));
    } else if (config_.momentum > 0) {
      first_.push_back(zeros("momentum", parameter));
    }
  }
  const auto device = parameters.empty() ? at::Device(at::kCPU) : parameters[0].value.device();
  step_ = at::zeros({}, at::TensorOptions().dtype(at::kFloat).device(device));
  state.push_back({"optimizer.step", step_});
  return state;
}

UpdateOutputs Optimizer::measure(const std::vector<OptimizedParameter>& parameters, const UpdateInputs& inputs) const {
  std::vector<at::Tensor> norms;
  for (const OptimizedParameter& parameter : parameters)
    if (parameter.gradient.defined())
      norms.push_back(at::linalg_vector_norm(parameter.gradient, 2, {}, false, at::kFloat));
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
  if (config_.name == "adamw")
    adamw(parameter, index, scalars);
  else
    sgd(parameter, index, scalars);
}

void Optimizer::count_step(const at::Tensor& skipped) {
  step_.add_(1 - skipped);
}

void Optimizer::adamw(const OptimizedParameter& parameter, size_t index, const UpdateScalars& scalars) {
  const double decay = parameter.value.dim() >= 2 ? config_.weight_decay : 0.0;
  // The fused kernels divide each gradient by grad_scale on their way through it: unscaling and clipping cost no pass.
  at::_fused_adamw_({parameter.value}, {parameter.gradient}, {first_[index]}, {second_[index]}, {}, {step_ + 1},
                    scalars.learning_rate, config_.beta1, config_.beta2, decay, config_.eps, /*amsgrad=*/false,
                    /*maximize=*/false, scalars.grad_scale, scalars.skipped);
}

void Optimizer::sgd(const OptimizedParameter& parameter, size_t index, const UpdateScalars& scalars) {
  const auto& [learning_rate, grad_scale, skipped] = scalars;
  // The fused kernel couples its weight decay to the gradient; decoupled decay shrinks the parameter beforehand.
  if (parameter.value.dim() >= 2 && config_.weight_decay > 0)
    parameter.value.mul_((1 - learning_rate * config_.weight_decay * (1 - skipped)).to(parameter.value.scalar_type()));
  if (config_.momentum > 0 && parameter.value.element_size() == 2) {
    // libtorch's fused kernel (2.11, CPU) reads a 16-bit momentum past the end of its part and spoils four elements.
    const at::Tensor skip = skipped.ne(0), moved = first_[index] * config_.momentum + parameter.gradient / grad_scale;
    first_[index].copy_(at::where(skip, first_[index], moved));
    parameter.value.copy_(at::where(skip, parameter.value, parameter.value - first_[index] * learning_rate));
    return;
  }
  std::vector<at::Tensor> momentum;
  if (config_.momentum > 0) momentum.push_back(first_[index]);
  at::_fused_sgd_(
      {parameter.value}, {parameter.gradient}, momentum, /*weight_decay=*/0.0, config_.momentum, learning_rate,
      /*dampening=*/0.0, /*nesterov=*/false, /*maximize=*/false, /*is_first_step=*/false, grad_scale, skipped);
}

}  // namespace plimsoll
