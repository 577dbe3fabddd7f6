// Declares the update of a step in pieces, in their order in segment `update`. passes/update_in_backward moves some of
// them into other segments.
//
//     begin | norm of each gradient | total | clip | update of each parameter | finish
//
// Only the scalars made here carry values from one piece to another, and they keep their offsets between segments.
#pragma once

#include <functional>

#include "plimsoll/trace.h"
#include "run/optimizer/optimizer.h"

namespace plimsoll {

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
