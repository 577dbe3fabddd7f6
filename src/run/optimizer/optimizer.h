// Declares the optimizer update as tensor operations. They are recorded on the plan device and run on any other.
#pragma once

#include <ATen/core/Tensor.h>

#include <string>
#include <vector>

#include "ops/optimizer/ops.h"
#include "plimsoll/options.h"
#include "run/optimizer/parameter_state.h"

namespace plimsoll {

/// Scalar inputs of a step: tensors of no dimensions on the parameters' device.
struct UpdateInputs {
  at::Tensor learning_rate;  ///< float64
  at::Tensor loss_scale;     ///< float32: factor that the losses were multiplied by
};
struct UpdateOutputs {
  at::Tensor gradient_norm;  ///< float32: 2-norm of all gradients, without the loss scale, before clipping
  at::Tensor skipped;        ///< float32: 1 if a gradient was not finite and nothing was changed, otherwise 0
};
/// Inputs of the update of one parameter: tensors of no dimensions on the parameters' device.
struct UpdateScalars {
  at::Tensor learning_rate;  ///< float64
  at::Tensor grad_scale;     ///< float32: gradients are divided by it, which unscales and clips them
  at::Tensor skipped;        ///< float32; not 0: parameter and state do not change
};

/// The optimizers of docs/optimizers.md, through operators of our own (ops/optimizer/ops.h). Weight decay is decoupled.
/// It is not applied to parameters of fewer than two dimensions: norms and biases.
class Optimizer {
 public:
  /// `seed` of random rounding.
  explicit Optimizer(const OptimizerConfig& config, uint64_t seed = 0) : config_(config), seed_(seed) {}

  /// Makes the state on the parameters' device: running means, which start at zero, and companions of 16-bit
  /// parameters, which start from the parameters. Throws UserError if the configuration does not suit a parameter.
  std::vector<NamedState> make_state(const std::vector<OptimizedParameter>& parameters);

  /// Updates one parameter; UpdateStep orders these calls (update_step.h). The update of a parameter does not depend on
  /// other parameters, and does not change its gradient.
  void update_one(const OptimizedParameter& parameter, size_t index, const UpdateScalars& scalars);
  void count_step(const at::Tensor& skipped);  ///< counts the step; called after the updates

 private:
  OptimizerConfig config_;
  uint64_t seed_;
  at::Tensor step_;                                // float32: updates so far
  std::vector<optimizer::ParameterState> states_;  // by parameter
};

}  // namespace plimsoll

namespace plimsoll::optimizer {

/// Returns `matrix` [rows, columns] with its singular values brought near 1 (0.7 to 1.2). Uses five steps of the
/// Newton-Schulz iteration with the coefficients of Jordan et al. 2024 ("Muon: an optimizer for hidden layers in neural
/// networks"). Holds at most four matrices of its size, and two of its smaller side squared.
at::Tensor orthogonal(const at::Tensor& matrix);

/// Applies Muon's update of a matrix, orthogonalized Nesterov momentum. It is recorded as libtorch matmuls, whose
/// temporaries the planner places. The step is scaled by 0.2 sqrt(max(rows, columns)), which makes its root mean square
/// AdamW's. AdamW's learning rate and weight decay can therefore be used (Liu et al. 2025, "Muon is scalable for LLM
/// training", section 2.2). Tensors of more than two dimensions are matrices of the first dimension by all others.
void muon_(const ops::UpdatedTensors& tensors, const ops::Packed& momentum, const at::Tensor& step,
           const ops::StepScalars& scalars, double decay_of_momentum, double weight_decay);

}  // namespace plimsoll::optimizer
