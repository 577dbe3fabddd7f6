// Declares the arithmetic of the optimizers on plain arrays: one pass, in place, in float32, or float64 for float64
// parameters. Callers handle everything else (formats, rounding, threads).
#pragma once

#include <cstdint>

#include "ops/optimizer/element_arithmetic.h"

namespace plimsoll::ops {

// Each function runs adamw_element(), lion_element() or sgd_element() `count` times (without momentum if `momentum` is
// null).

void adamw_update(float* p, const float* g, float* mean, float* square, int64_t count, const AdamWStep<float>& step);
void adamw_update(double* p, const double* g, double* mean, double* square, int64_t count,
                  const AdamWStep<double>& step);

void lion_update(float* p, const float* g, float* mean, int64_t count, const LionStep<float>& step);
void lion_update(double* p, const double* g, double* mean, int64_t count, const LionStep<double>& step);

void sgd_update(float* p, const float* g, float* momentum, int64_t count, const SgdStep<float>& step);
void sgd_update(double* p, const double* g, double* momentum, int64_t count, const SgdStep<double>& step);

// The next functions are Adafactor's three passes, each over a part of a row.

/// Adds s = (g / grad_scale)^2 + eps to `columns`, and returns the sum of s.
double add_squares(const float* g, float* columns, int64_t count, float grad_scale, float eps);
/// Returns the sum of (g factors)^2.
double sum_of_squared_products(const float* g, const float* factors, int64_t count);
/// Computes p <- kept p - step_size g factors.
void subtract_products(float* p, const float* g, const float* factors, int64_t count, float kept, float step_size);

/// Computes to <- to + from.
void add(float* to, const float* from, int64_t count);
/// Returns the sum of the squares, in float64 and always in the same order.
double sum_of_squares(const float* from, int64_t count);

}  // namespace plimsoll::ops
