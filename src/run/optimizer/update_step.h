// The update of a step in pieces, in the order in which they belong to segment `update`; passes/update_in_backward puts
// some of them elsewhere.
//
//     begin | norm of each gradient | total | clip | update of each parameter | finish
//
// Between pieces only the scalars made here carry anything on, and they keep their places between segments.
#pragma once

#include <functional>

#include "plimsoll/trace.h"
#include "run/optimizer/optimizer.h"

namespace plimsoll {

class UpdateStep {
 public:
  /// `max_grad_norm` 0: gradients are not clipped. `overflows`: gradients that are not finite are part of the routine,
  /// so that no update may come before all are known. The optimizer has made its state, and outlives this.
  UpdateStep(Optimizer& optimizer, double max_grad_norm, bool overflows = false)
      : optimizer_(optimizer), max_grad_norm_(max_grad_norm), overflows_(overflows) {}

  /// Tensors that keep their bytes between segments, on the parameters' device, to be made before the first segment.
  std::vector<at::Tensor> make_scalars(const std::vector<OptimizedParameter>& parameters);

  /// Called before the ops of each piece; `index` is the parameter's, or -1.
  using OnPiece = std::function<void(UpdatePiece::Kind kind, int64_t index)>;

  /// Updates parameters and state in place. If a gradient is not finite nothing changes; where the pieces run elsewhere
  /// and updates do not wait for the norm of all gradients, nothing from that gradient on. Parameters without a
  /// gradient take no part in the loss and are left alone.
  UpdateOutputs run(const std::vector<OptimizedParameter>& parameters, const UpdateInputs& inputs,
                    const OnPiece& on_piece = nullptr);

 private:
  class SlicedNorms;
  bool waits_for_all() const { return max_grad_norm_ > 0 || overflows_; }

  Optimizer& optimizer_;
  double max_grad_norm_;
  bool overflows_;
  at::Tensor norms_;       // float32, by parameter
  at::Tensor total_;       // float32: of all gradients, without the loss scale
  at::Tensor grad_scale_;  // float32: gradients are divided by it
  at::Tensor skipped_;     // float32
  // Sums of blocks of sliced gradients, float64 [ranks * blocks]: of all of them, or where an update may come before
  // all gradients are known, of each.
  std::vector<at::Tensor> block_sums_;
};

}  // namespace plimsoll
