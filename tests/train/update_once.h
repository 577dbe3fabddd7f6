// Runs one whole update outside a recorded step.
#pragma once

#include <vector>

#include "run/optimizer/optimizer.h"

namespace plimsoll {

/// `max_grad_norm` 0: gradients are not clipped. The optimizer has made its state.
inline UpdateOutputs update_once(Optimizer& optimizer, double max_grad_norm,
                                 const std::vector<OptimizedParameter>& parameters, const UpdateInputs& inputs) {
  UpdateStep step(optimizer, max_grad_norm);
  step.make_scalars(parameters);
  return step.run(parameters, inputs);
}

}  // namespace plimsoll
