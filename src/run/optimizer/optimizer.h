// The optimizer update as tensor operations: recorded on the plan device, run as they are on any other.
#pragma once

#include <ATen/core/Tensor.h>

#include <string>
#include <vector>

#include "plimsoll/options.h"
#include "run/optimizer/parameter_state.h"

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
  explicit Optimizer(const OptimizerConfig& config, uint64_t seed = 0) : config_(config), seed_(seed) {}

  /// Makes the state on the parameters' device: running means, which start at zero, and what 16-bit parameters keep
  /// beside themselves, which starts from the parameters as they are. Throws UserError where the configuration does not
  /// suit a parameter.
  std::vector<NamedState> make_state(const std::vector<OptimizedParameter>& parameters);

  /// The update in parts, which UpdateStep orders (update_step.h). What one parameter's update does depends on no
  /// other's; its gradient stays as it is.
  void update_one(const OptimizedParameter& parameter, size_t index, const UpdateScalars& scalars);
  void count_step(const at::Tensor& skipped);  ///< after the updates

 private:
  OptimizerConfig config_;
  uint64_t seed_;
  at::Tensor step_;                                // float32: updates so far
  std::vector<optimizer::ParameterState> states_;  // by parameter
};

}  // namespace plimsoll
