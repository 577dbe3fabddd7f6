// Declares the optimizer of a training: what it updates in a step, on which schedule, with which loss scale.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "ops/optimizer/ops.h"
#include "plimsoll/options.h"
#include "plimsoll/trace.h"
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

  /// Updates one parameter; UpdateStep orders these calls. The update of a parameter does not depend on
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

namespace plimsoll {

/// Implements dynamic loss scaling for float16 gradients (Micikevicius et al. 2018), with the constants of
/// torch.amp.GradScaler.
class LossScaler {
 public:
  /// `enabled` false: the scale is always 1.
  explicit LossScaler(bool enabled) : enabled_(enabled), scale_(enabled ? 65536.0 : 1.0) {}

  double scale() const { return scale_; }
  int64_t growth_tracker() const { return growth_tracker_; }
  void restore(double scale, int64_t growth_tracker) {
    scale_ = scale;
    growth_tracker_ = growth_tracker;
  }

  /// Updates the scale after a step: halves it if a gradient was not finite, doubles it after 2000 good steps in a row.
  void update(bool skipped) {
    if (!enabled_) return;
    if (skipped) {
      scale_ *= 0.5;
      growth_tracker_ = 0;
    } else if (++growth_tracker_ == 2000) {
      scale_ *= 2;
      growth_tracker_ = 0;
    }
  }

 private:
  bool enabled_;
  double scale_;
  int64_t growth_tracker_ = 0;
};

/// The update of a step in pieces, in their order in segment `update`. passes/update_in_backward moves some of
/// them into other segments.
class UpdateStep {
 public:
  /// `max_grad_norm` 0: gradients are not clipped. `overflows`: gradients that are not finite are expected, so no
  /// update may run before all gradients are known. The optimizer has made its state, and outlives this object.
  UpdateStep(Optimizer& optimizer, double max_grad_norm, bool overflows = false)
      : optimizer_(optimizer), max_grad_norm_(max_grad_norm), overflows_(overflows) {}

  /// Makes the tensors that keep their bytes between segments, on the parameters' device. Called before the first
  /// segment.
  std::vector<at::Tensor> make_scalars(const std::vector<OptimizedParameter>& parameters);

  /// Called before the ops of each piece; `index` is the parameter's, or -1.
  using OnPiece = std::function<void(UpdatePiece::Kind kind, int64_t index)>;

  /// Updates parameters and state in place. If a gradient is not finite, nothing changes. If the pieces run in other
  /// segments and updates do not wait for the norm of all gradients, nothing changes from that gradient on. Parameters
  /// without a gradient take no part in the loss and do not change.
  UpdateOutputs run(const std::vector<OptimizedParameter>& parameters, const UpdateInputs& inputs,
                    const OnPiece& on_piece = nullptr);

 private:
  class SlicedNorms;
  bool waits_for_all() const { return max_grad_norm_ > 0 || overflows_; }

  Optimizer& optimizer_;
  double max_grad_norm_;
  bool overflows_;
  at::Tensor norms_;       // float32, by parameter
  at::Tensor total_;       // float32: norm of all gradients, without the loss scale
  at::Tensor grad_scale_;  // float32: gradients are divided by it
  at::Tensor skipped_;     // float32
  // Sums of blocks of sliced gradients, float64 [ranks * blocks]: one tensor for all gradients, or one for each
  // gradient if an update may run before all gradients are known.
  std::vector<at::Tensor> block_sums_;
};

}  // namespace plimsoll
