// The optimizer update as tensor operations: recorded on the plan device, run as they are on any other.
#pragma once

#include <ATen/core/Tensor.h>

#include <string>
#include <vector>

#include "plimsoll/job.h"
#include "train/optimizer/parameter_state.h"

namespace plimsoll {

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

/// The optimizers of docs/optimizers.md, through operators of our own (ops/optimizer/ops.h). Weight decay is decoupled,
/// and not applied to parameters of fewer than two dimensions: norms and biases.
class Optimizer {
 public:
  /// `seed`: of what is rounded at random.
  Optimizer(const OptimizerConfig& config, double max_grad_norm, uint64_t seed = 0)
      : config_(config), max_grad_norm_(max_grad_norm), seed_(seed) {}

  /// Makes the state on the parameters' device: running means, which start at zero, and what 16-bit parameters keep
  /// beside themselves, which starts from the parameters as they are. Throws UserError where the configuration does not
  /// suit a parameter.
  std::vector<NamedState> make_state(const std::vector<OptimizedParameter>& parameters);

  /// Updates parameters and state in place; gradients stay as they are. If a gradient is not finite nothing changes.
  UpdateOutputs update(const std::vector<OptimizedParameter>& parameters, const UpdateInputs& inputs);

  /// The parts of update(), for who orders them otherwise. What one parameter's update does depends on no other's.
  UpdateOutputs measure(const std::vector<OptimizedParameter>& parameters, const UpdateInputs& inputs) const;
  /// What gradients are divided by, given their norm (without the loss scale).
  at::Tensor grad_scale(const at::Tensor& gradient_norm, const at::Tensor& loss_scale) const;
  void update_one(const OptimizedParameter& parameter, size_t index, const UpdateScalars& scalars);
  void count_step(const at::Tensor& skipped);  ///< after the updates

 private:
  OptimizerConfig config_;
  double max_grad_norm_;
  uint64_t seed_;
  at::Tensor step_;                                // float32: updates so far
  std::vector<optimizer::ParameterState> states_;  // by parameter
};

}  // namespace plimsoll
