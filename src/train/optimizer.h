// The optimizer update as tensor operations: recorded on the plan device, run as they are on any other.
#pragma once

#include <ATen/core/Tensor.h>

#include <string>
#include <vector>

#include "plimsoll/job.h"

namespace plimsoll {

struct OptimizedParameter {
  std::string name;
  at::Tensor value;
  at::Tensor gradient;  ///< undefined: the parameter takes no part in the loss and is left alone
};

/// A tensor of optimizer state, for checkpoints: "optimizer.exp_avg.layers.0.weight".
struct NamedState {
  std::string name;
  at::Tensor tensor;
};

/// Scalars of a step, tensors of no dimensions on the parameters' device.
struct UpdateInputs {
  at::Tensor learning_rate;  ///< float64
  at::Tensor loss_scale;     ///< float32: what the losses were multiplied by
};
struct UpdateOutputs {
  at::Tensor gradient_norm;  ///< float32: 2-norm of all gradients, without the loss scale, before clipping
  at::Tensor skipped;        ///< float32: 1 if a gradient was not finite and nothing was changed, otherwise 0
};
/// What the update of one parameter is told, tensors of no dimensions on the parameters' device.
struct UpdateScalars {
  at::Tensor learning_rate;  ///< float64
  at::Tensor grad_scale;     ///< float32: gradients are divided by it, which unscales and clips them
  at::Tensor skipped;        ///< float32: not 0: parameter and state stay as they are
};

/// AdamW (Loshchilov and Hutter 2019) or SGD with momentum, weight decay decoupled in both, through libtorch's fused
/// kernels. Weight decay is not applied to parameters of fewer than two dimensions: norms and biases.
class Optimizer {
 public:
  Optimizer(const OptimizerConfig& config, double max_grad_norm, uint64_t seed = 0)
      : config_(config), max_grad_norm_(max_grad_norm), seed_(seed) {}

  /// Makes the state, zeros of each parameter's type, on its device.
  std::vector<NamedState> make_state(const std::vector<OptimizedParameter>& parameters);

  /// Updates parameters and state in place. Gradients are spoilt: unscaled and clipped on the way. If a gradient is
  /// not finite nothing else changes.
  UpdateOutputs update(const std::vector<OptimizedParameter>& parameters, const UpdateInputs& inputs);

  /// The parts of update(), for who orders them otherwise. What one parameter's update does depends on no other's.
  UpdateOutputs measure(const std::vector<OptimizedParameter>& parameters, const UpdateInputs& inputs) const;
  /// What gradients are divided by, given their norm (without the loss scale).
  at::Tensor grad_scale(const at::Tensor& gradient_norm, const at::Tensor& loss_scale) const;
  void update_one(const OptimizedParameter& parameter, size_t index, const UpdateScalars& scalars);
  void count_step(const at::Tensor& skipped);  ///< after the updates

 private:
  void adamw(const OptimizedParameter& parameter, size_t index, const UpdateScalars& scalars);
  void sgd(const OptimizedParameter& parameter, size_t index, const UpdateScalars& scalars);

  OptimizerConfig config_;
  double max_grad_norm_;
  uint64_t seed_;
  at::Tensor step_;                         // float32: updates so far
  std::vector<at::Tensor> first_, second_;  // exp_avg or momentum; exp_avg_sq
};

}  // namespace plimsoll
