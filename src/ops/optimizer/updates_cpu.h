// The arithmetic of the optimizers on plain arrays: one pass, in place. float32, or float64 for float64 parameters.
// Everything else (formats, rounding, threads) is the callers'.
#pragma once

#include <cstdint>

namespace plimsoll::ops {

/// What the scalars of a step come to.
template <typename Number>
struct AdamWStep {
  Number unscale;  ///< 1 / grad_scale, which gradients are multiplied by: dividing each would cost as much as the rest
  Number kept;     ///< 1 - learning rate x weight decay
  Number beta1, beta2;     ///< of the means
  Number rest1, rest2;     ///< 1 - beta, worked out in float64
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

/// mean <- beta1 mean + (1 - beta1) g, square <- beta2 square + (1 - beta2) g^2,
/// p <- kept p - step_size mean / (sqrt(square) root_correction + eps)
void adamw_update(float* p, const float* g, float* mean, float* square, int64_t count, const AdamWStep<float>& step);
void adamw_update(double* p, const double* g, double* mean, double* square, int64_t count,
                  const AdamWStep<double>& step);

/// p <- kept p - learning_rate sign(beta1 mean + (1 - beta1) g), mean <- beta2 mean + (1 - beta2) g
void lion_update(float* p, const float* g, float* mean, int64_t count, const LionStep<float>& step);
void lion_update(double* p, const double* g, double* mean, int64_t count, const LionStep<double>& step);

/// momentum <- beta momentum + g, p <- kept p - learning_rate momentum; without momentum, g takes its place.
void sgd_update(float* p, const float* g, float* momentum, int64_t count, const SgdStep<float>& step);
void sgd_update(double* p, const double* g, double* momentum, int64_t count, const SgdStep<double>& step);

// Adafactor's three passes, each over a part of a row.

/// columns <- columns + s, and returns the sum of s, where s = (g / grad_scale)^2 + eps.
double add_squares(const float* g, float* columns, int64_t count, float grad_scale, float eps);
/// The sum of (g factors)^2.
double sum_of_squared_products(const float* g, const float* factors, int64_t count);
/// p <- kept p - step_size g factors
void subtract_products(float* p, const float* g, const float* factors, int64_t count, float kept, float step_size);

/// to <- to + from
void add(float* to, const float* from, int64_t count);
/// The sum of the squares, in float64 and always in the same order.
double sum_of_squares(const float* from, int64_t count);

}  // namespace plimsoll::ops
