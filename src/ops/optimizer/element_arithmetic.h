// Implements the update of one element by each optimizer, and the factors derived from a step's scalars. The CPU's
// loops and the GPU kernels share it and produce the same bits. `Number` is float, double, or Unfused of them
// (host_device.h).
#pragma once

#include <cstdint>

#include "ops/host_device.h"

namespace plimsoll::ops {

template <typename Number>
struct AdamWStep {
  Number unscale;          ///< 1 / grad_scale, which multiplies gradients: a division each would double the cost
  Number kept;             ///< 1 - learning rate x weight decay
  Number beta1, beta2;     ///< decay rates of the means
  Number rest1, rest2;     ///< 1 - beta, computed in float64
  Number step_size;        ///< learning rate / (1 - beta1^step)
  Number root_correction;  ///< 1 / sqrt(1 - beta2^step)
  Number eps;
};
template <typename Number>
struct LionStep {
  Number unscale, kept, learning_rate, beta1, beta2, rest1, rest2;
};
template <typename Number>
struct SgdStep {
  Number unscale, kept, learning_rate, momentum;
};

/// The scalars that an update reads. `step` is the number of updates before it.
struct StepNumbers {
  double step = 0, learning_rate = 0, grad_scale = 1;
};

/// Returns base^exponent by squaring: the last bit of std::pow differs between platforms.
PLIMSOLL_HOST_DEVICE Unfused<double> whole_power(double base, double exponent) {
  Unfused<double> power(1.0), square(base);
  for (auto left = static_cast<uint64_t>(exponent); left != 0; left >>= 1) {
    if (left & 1) power = power * square;
    square = square * square;
  }
  return power;
}

/// Returns the factors of a step; `numbers`: beta1, beta2, weight decay, eps.
template <typename Number>
PLIMSOLL_HOST_DEVICE AdamWStep<Number> adamw_step(const StepNumbers& of, const double* numbers) {
  using Wide = Unfused<double>;
  const Wide one(1.0), rate(of.learning_rate), beta1(numbers[0]), beta2(numbers[1]);
  const double updates = of.step + 1;
  const auto number = [](Wide wide) { return static_cast<Number>(wide.value); };
  return {number(one / Wide(of.grad_scale)),
          number(one - rate * Wide(numbers[2])),
          number(beta1),
          number(beta2),
          number(one - beta1),
          number(one - beta2),
          number(rate / (one - whole_power(numbers[0], updates))),
          number(one / square_root(one - whole_power(numbers[1], updates))),
          number(Wide(numbers[3]))};
}

/// Returns the factors of a step; `numbers`: beta1, beta2, weight decay.
template <typename Number>
PLIMSOLL_HOST_DEVICE LionStep<Number> lion_step(const StepNumbers& of, const double* numbers) {
  using Wide = Unfused<double>;
  const Wide one(1.0), rate(of.learning_rate), beta1(numbers[0]), beta2(numbers[1]);
  const auto number = [](Wide wide) { return static_cast<Number>(wide.value); };
  return {number(one / Wide(of.grad_scale)),
          number(one - rate * Wide(numbers[2])),
          number(rate),
          number(beta1),
          number(beta2),
          number(one - beta1),
          number(one - beta2)};
}

template <typename Number>
PLIMSOLL_HOST_DEVICE SgdStep<Number> sgd_step(const StepNumbers& of, double momentum, double weight_decay) {
  using Wide = Unfused<double>;
  const Wide one(1.0), rate(of.learning_rate);
  const auto number = [](Wide wide) { return static_cast<Number>(wide.value); };
  return {number(one / Wide(of.grad_scale)), number(one - rate * Wide(weight_decay)), number(rate),
          number(Wide(momentum))};
}

/// Computes mean <- beta1 mean + (1 - beta1) g, square <- beta2 square + (1 - beta2) g^2,
/// p <- kept p - step_size mean / (sqrt(square) root_correction + eps)
template <typename Number>
PLIMSOLL_HOST_DEVICE void adamw_element(Number& p, Number g, Number& mean, Number& square,
                                        const AdamWStep<Number>& step) {
  const Number gradient = g * step.unscale;
  const Number m = step.beta1 * mean + step.rest1 * gradient;
  const Number v = step.beta2 * square + step.rest2 * gradient * gradient;
  mean = m;
  square = v;
  p = step.kept * p - step.step_size * m / (square_root(v) * step.root_correction + step.eps);
}

/// Computes p <- kept p - learning_rate sign(beta1 mean + (1 - beta1) g), mean <- beta2 mean + (1 - beta2) g
template <typename Number>
PLIMSOLL_HOST_DEVICE void lion_element(Number& p, Number g, Number& mean, const LionStep<Number>& step) {
  const Number gradient = g * step.unscale, zero(0);
  const Number direction = step.beta1 * mean + step.rest1 * gradient;
  const Number sign = direction > zero ? Number(1) : direction < zero ? Number(-1) : zero;
  p = step.kept * p - step.learning_rate * sign;
  mean = step.beta2 * mean + step.rest2 * gradient;
}

/// Computes momentum <- beta momentum + g, p <- kept p - learning_rate momentum
template <typename Number>
PLIMSOLL_HOST_DEVICE void momentum_sgd_element(Number& p, Number g, Number& momentum, const SgdStep<Number>& step) {
  const Number moved = step.momentum * momentum + g * step.unscale;
  momentum = moved;
  p = step.kept * p - step.learning_rate * moved;
}

/// Computes p <- kept p - learning_rate g
template <typename Number>
PLIMSOLL_HOST_DEVICE void sgd_element(Number& p, Number g, const SgdStep<Number>& step) {
  p = step.kept * p - step.learning_rate * (g * step.unscale);
}

/// Computes momentum <- decay momentum + g and returns g + decay momentum; g is the gradient divided by its scale.
template <typename Number>
PLIMSOLL_HOST_DEVICE Number nesterov_element(Number gradient, Number& momentum, Number grad_scale, Number decay) {
  const Number g = gradient / grad_scale;
  momentum = decay * momentum + g;
  return g + decay * momentum;
}

}  // namespace plimsoll::ops
