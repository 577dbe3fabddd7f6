#include "ops/optimizer/update_op.h"

#include <cmath>

#include "ops/cpu_capability.h"

// The loops are plain: the compiler vectorizes them for every instruction set.
#define PLIMSOLL_LOOP [[gnu::always_inline]] inline

namespace plimsoll::ops {
namespace {

template <typename Number>
PLIMSOLL_LOOP void adamw(Number* __restrict p, const Number* __restrict g, Number* __restrict mean,
                         Number* __restrict square, int64_t count, const AdamWStep<Number>& of) {
  const AdamWStep<Number> step = of;
  for (int64_t i = 0; i < count; ++i) adamw_element(p[i], g[i], mean[i], square[i], step);
}

template <typename Number>
PLIMSOLL_LOOP void lion(Number* __restrict p, const Number* __restrict g, Number* __restrict mean, int64_t count,
                        const LionStep<Number>& of) {
  const LionStep<Number> step = of;
  for (int64_t i = 0; i < count; ++i) lion_element(p[i], g[i], mean[i], step);
}

template <typename Number>
PLIMSOLL_LOOP void sgd(Number* __restrict p, const Number* __restrict g, Number* __restrict momentum, int64_t count,
                       const SgdStep<Number>& of) {
  const SgdStep<Number> step = of;
  for (int64_t i = 0; i < count; ++i) momentum_sgd_element(p[i], g[i], momentum[i], step);
}

template <typename Number>
PLIMSOLL_LOOP void sgd(Number* __restrict p, const Number* __restrict g, int64_t count, const SgdStep<Number>& of) {
  const SgdStep<Number> step = of;
  for (int64_t i = 0; i < count; ++i) sgd_element(p[i], g[i], step);
}

}  // namespace

#define PLIMSOLL_UPDATES(Number)                                                                                   \
  PLIMSOLL_VARIANTS(                                                                                               \
      void, adamw_##Number,                                                                                        \
      (Number * p, const Number* g, Number* mean, Number* square, int64_t count, const AdamWStep<Number>& step),   \
      (p, g, mean, square, count, step), { adamw(p, g, mean, square, count, step); })                              \
  PLIMSOLL_VARIANTS(void, lion_##Number,                                                                           \
                    (Number * p, const Number* g, Number* mean, int64_t count, const LionStep<Number>& step),      \
                    (p, g, mean, count, step), { lion(p, g, mean, count, step); })                                 \
  PLIMSOLL_VARIANTS(void, momentum_##Number,                                                                       \
                    (Number * p, const Number* g, Number* momentum, int64_t count, const SgdStep<Number>& step),   \
                    (p, g, momentum, count, step), { sgd(p, g, momentum, count, step); })                          \
  PLIMSOLL_VARIANTS(void, sgd_##Number, (Number * p, const Number* g, int64_t count, const SgdStep<Number>& step), \
                    (p, g, count, step), { sgd(p, g, count, step); })                                              \
  void adamw_update(Number* p, const Number* g, Number* mean, Number* square, int64_t count,                       \
                    const AdamWStep<Number>& step) {                                                               \
    adamw_##Number(p, g, mean, square, count, step);                                                               \
  }                                                                                                                \
  void lion_update(Number* p, const Number* g, Number* mean, int64_t count, const LionStep<Number>& step) {        \
    lion_##Number(p, g, mean, count, step);                                                                        \
  }                                                                                                                \
  void sgd_update(Number* p, const Number* g, Number* momentum, int64_t count, const SgdStep<Number>& step) {      \
    if (momentum)                                                                                                  \
      momentum_##Number(p, g, momentum, count, step);                                                              \
    else                                                                                                           \
      sgd_##Number(p, g, count, step);                                                                             \
  }
PLIMSOLL_UPDATES(float)
PLIMSOLL_UPDATES(double)
#undef PLIMSOLL_UPDATES

// Sums have sixteen lanes, an order that vectors can keep.
constexpr int64_t kLanes = 16;

template <typename Term>
PLIMSOLL_LOOP double sum_in_lanes(int64_t count, const Term& term) {
  double sums[kLanes] = {};
  int64_t i = 0;
  for (; i + kLanes <= count; i += kLanes)
    for (int64_t j = 0; j < kLanes; ++j) sums[j] += static_cast<double>(term(i + j));
  for (int64_t j = 0; i + j < count; ++j) sums[j] += static_cast<double>(term(i + j));
  double total = 0;
  for (double sum : sums) total += sum;
  return total;
}

PLIMSOLL_VARIANTS(double, add_squares_in_lanes,
                  (const float* __restrict g, float* __restrict columns, int64_t count, float grad_scale, float eps),
                  (g, columns, count, grad_scale, eps), {
                    return sum_in_lanes(
                        count, [=](int64_t i) __attribute__((always_inline)) {
                          const float gradient = g[i] / grad_scale, square = gradient * gradient + eps;
                          columns[i] += square;
                          return square;
                        });
                  })
double add_squares(const float* g, float* columns, int64_t count, float grad_scale, float eps) {
  return add_squares_in_lanes(g, columns, count, grad_scale, eps);
}

PLIMSOLL_VARIANTS(double, squared_products, (const float* g, const float* factors, int64_t count), (g, factors, count),
                  {
                    return sum_in_lanes(
                        count, [=](int64_t i)
                                   __attribute__((always_inline)) { return g[i] * factors[i] * (g[i] * factors[i]); });
                  })
double sum_of_squared_products(const float* g, const float* factors, int64_t count) {
  return squared_products(g, factors, count);
}

PLIMSOLL_VARIANTS(void, subtract,
                  (float* __restrict p, const float* __restrict g, const float* __restrict factors, int64_t count,
                   float kept, float step_size),
                  (p, g, factors, count, kept, step_size), {
                    for (int64_t i = 0; i < count; ++i) p[i] = kept * p[i] - step_size * (g[i] * factors[i]);
                  })
void subtract_products(float* p, const float* g, const float* factors, int64_t count, float kept, float step_size) {
  subtract(p, g, factors, count, kept, step_size);
}

PLIMSOLL_VARIANTS(void, add_floats, (float* __restrict to, const float* __restrict from, int64_t count),
                  (to, from, count), {
                    for (int64_t i = 0; i < count; ++i) to[i] += from[i];
                  })
void add(float* to, const float* from, int64_t count) {
  add_floats(to, from, count);
}

PLIMSOLL_VARIANTS(double, squares_of, (const float* from, int64_t count), (from, count), {
  return sum_in_lanes(
      count, [=](int64_t i) __attribute__((always_inline)) {
        return static_cast<double>(from[i]) * static_cast<double>(from[i]);
      });
})
double sum_of_squares(const float* from, int64_t count) {
  return squares_of(from, count);
}

}  // namespace plimsoll::ops
