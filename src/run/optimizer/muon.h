// Muon's update of a matrix: momentum, made orthogonal. Recorded as libtorch matrix products, whose temporaries the
// planner places.
#pragma once

#include <ATen/core/Tensor.h>

#include "ops/optimizer/ops.h"

namespace plimsoll::optimizer {

/// `matrix` [rows, columns] with its singular values brought near 1 (0.7 to 1.2), by five steps of the Newton-Schulz
/// iteration with the coefficients of Jordan et al. 2024 ("Muon: an optimizer for hidden layers in neural networks").
/// Holds at most four matrices of its size, and two of its smaller side squared.
at::Tensor orthogonal(const at::Tensor& matrix);

/// Momentum with Nesterov's look ahead, made orthogonal; the step is that times 0.2 sqrt(max(rows, columns)), which
/// makes its root mean square AdamW's, so that AdamW's learning rate and weight decay serve (Liu et al. 2025, "Muon is
/// scalable for LLM training", section 2.2). More than two dimensions: the first against all others.
void muon_(const ops::UpdatedTensors& tensors, const ops::Packed& momentum, const at::Tensor& step,
           const ops::StepScalars& scalars, double decay_of_momentum, double weight_decay);

}  // namespace plimsoll::optimizer
