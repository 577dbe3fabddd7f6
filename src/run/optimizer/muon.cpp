#include "run/optimizer/muon.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>

namespace plimsoll::optimizer {

at::Tensor orthogonal(const at::Tensor& matrix) {
  constexpr double a = 3.4445, b = -4.7750, c = 2.0315;
  constexpr int steps = 5;
  const bool wide = matrix.size(0) <= matrix.size(1);
  at::Tensor x = matrix / (at::linalg_vector_norm(matrix, 2, {}, false, at::kFloat) + 1e-7);
  // X <- a X + (b A + c A A) X with A = X X'. A tall matrix uses A = X' X from the other side, because A is then the
  // smaller one.
  for (int i = 0; i < steps; ++i) {
    const at::Tensor product = wide ? at::mm(x, x.t()) : at::mm(x.t(), x);
    const at::Tensor factor = at::addmm(product, product, product, b, c);
    x = wide ? at::addmm(x, factor, x, a, 1) : at::addmm(x, x, factor, a, 1);
  }
  return x;
}

void muon_(const ops::UpdatedTensors& tensors, const ops::Packed& momentum, const at::Tensor& step,
           const ops::StepScalars& scalars, double decay_of_momentum, double weight_decay) {
  const at::Tensor& parameter = tensors.parameter;
  const at::ScalarType type = parameter.element_size() == 2 ? at::kBFloat16 : at::kFloat;
  const at::Tensor moved =
      ops::nesterov_momentum_(tensors.gradient, momentum, step, scalars, decay_of_momentum, type, tensors.rounding);
  const int64_t rows = parameter.size(0), columns = parameter.numel() / rows;
  const at::Tensor direction = orthogonal(moved.view({rows, columns})).view(parameter.sizes());
  const double factor = 0.2 * std::sqrt(static_cast<double>(std::max(rows, columns)));
  // SGD with that direction: the factor multiplies the learning rate and divides the decay.
  ops::UpdatedTensors update = tensors;
  update.gradient = {direction};
  const ops::StepScalars scaled{scalars.learning_rate * factor, at::ones_like(scalars.grad_scale), scalars.skipped};
  ops::sgd_(update, {}, step, scaled, 0, weight_decay / factor);
}

}  // namespace plimsoll::optimizer
