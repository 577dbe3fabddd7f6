// Declares Muon's update of a matrix: orthogonalized momentum. It is recorded as libtorch matmuls, whose temporaries
// the planner places.
#pragma once

#include <ATen/core/Tensor.h>

#include "ops/optimizer/ops.h"

namespace plimsoll::optimizer {

/// Returns `matrix` [rows, columns] with its singular values brought near 1 (0.7 to 1.2). Uses five steps of the
/// Newton-Schulz iteration with the coefficients of Jordan et al. 2024 ("Muon: an optimizer for hidden layers in neural
/// networks"). Holds at most four matrices of its size, and two of its smaller side squared.
at::Tensor orthogonal(const at::Tensor& matrix);

/// Applies orthogonalized Nesterov momentum. The step is scaled by 0.2 sqrt(max(rows, columns)), which makes its root
/// mean square AdamW's. AdamW's learning rate and weight decay can therefore be used (Liu et al. 2025, "Muon is
/// scalable for LLM training", section 2.2). Tensors of more than two dimensions are matrices of the first dimension by
/// all others.
void muon_(const ops::UpdatedTensors& tensors, const ops::Packed& momentum, const at::Tensor& step,
           const ops::StepScalars& scalars, double decay_of_momentum, double weight_decay);

}  // namespace plimsoll::optimizer
