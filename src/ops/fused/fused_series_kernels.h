// Implements fused_series.h for one instruction set. Each source that is compiled for one set includes it once and
// names the function PLIMSOLL_SERIES_STEP. The formulas are those of libtorch's kernels
// (ATen/native/cpu/Activation.cpp, UnaryOpsKernel.cpp, Gelu.h), for vectors and for single values.
#pragma once

#include <ATen/cpu/vec/vec.h>
#include <ATen/native/cpu/Gelu.h>

#include <cmath>

#include "ops/fused/fused_series.h"

namespace plimsoll::ops::series {
namespace {

using Vector = at::vec::Vectorized<float>;
constexpr int64_t kWidth = Vector::size();

// Operands: gradient (of backward opcodes), x, then the scalars that are equal for all elements.
struct TanhBackward {
  static Vector of(Vector gradient, Vector tanh) { return gradient * (Vector(1.0f) - tanh * tanh); }
  static float of(float gradient, float tanh) { return gradient * (1.0f - tanh * tanh); }
};

struct Sigmoid {
  static Vector of(Vector x) { return (Vector(1.0f) + (Vector(0.0f) - x).exp()).reciprocal(); }
  static float of(float x) { return 1.0f / (1.0f + std::exp(-x)); }
};

struct Silu {
  static Vector of(Vector x) { return x / (Vector(1.0f) + x.neg().exp()); }
  static float of(float x) { return x / (1.0f + std::exp(-x)); }
};

struct SiluBackward {
  static Vector of(Vector gradient, Vector x) {
    const Vector one(1.0f), sigmoid = one / (one + x.neg().exp());
    return gradient * sigmoid * (one + x * (one - sigmoid));
  }
  static float of(float gradient, float x) {
    const float sigmoid = 1.0f / (1.0f + std::exp(-x));
    return gradient * sigmoid * (1.0f + x * (1.0f - sigmoid));
  }
};

struct GeluTanh {
  static Vector of(Vector x) { return at::native::vectorized_gelu_approximated_with_tanh(x); }
  static float of(float x) { return at::native::scalar_gelu_approximated_with_tanh(x); }
};

struct GeluTanhBackward {
  static constexpr auto kBeta = static_cast<float>(M_SQRT2 * M_2_SQRTPI * 0.5);
  static constexpr auto kKappa = static_cast<float>(0.044715);
  static Vector tanh(Vector x) { return x.tanh(); }
  static float tanh(float x) { return std::tanh(x); }
  template <typename T>
  static T of(T gradient, T x) {
    const T one(1.0f), half(0.5f), beta(kBeta), kappa(kKappa);
    const T square = x * x, cube = square * x;
    const T inner = tanh(beta * (x + kappa * cube));
    const T left = half * x, right = one + inner;
    const T left_derivative = half * right;
    const T tanh_derivative = one - inner * inner;
    const T inner_derivative = beta * (one + T(3.0f) * kappa * square);
    const T right_derivative = left * tanh_derivative * inner_derivative;
    return gradient * (left_derivative + right_derivative);
  }
};

struct Softplus {
  static Vector of(Vector x, Vector beta, Vector threshold) {
    return Vector::blendv((x * beta).exp().log1p() / beta, x, (x * beta) > threshold);
  }
  static float of(float x, float beta, float threshold) {
    return x * beta > threshold ? x : std::log1p(std::exp(x * beta)) / beta;
  }
};

struct SoftplusBackward {
  static Vector of(Vector gradient, Vector x, Vector beta, Vector threshold) {
    const Vector z = (x * beta).exp();
    return Vector::blendv(gradient * z / (z + Vector(1.0f)), gradient, (x * beta) > threshold);
  }
  static float of(float gradient, float x, float beta, float threshold) {
    const float z = std::exp(x * beta);
    return x * beta > threshold ? gradient : gradient * z / (z + 1.0f);
  }
};

template <typename Function, size_t... index>
void loop(const FusedBlockStep& step, int64_t count, int64_t vectors, std::index_sequence<index...>) {
  int64_t i = 0;
  for (; i < vectors; i += kWidth) Function::of(Vector::loadu(step.from[index] + i)...).store(step.to + i);
  for (; i < count; ++i) step.to[i] = Function::of(step.from[index][i]...);
}

}  // namespace

bool PLIMSOLL_SERIES_STEP(const FusedBlockStep& step, int64_t count, int64_t begin, int64_t piece) {
  // A vector of 16-bit values has twice as many elements.
  const int64_t unit = 2 * kWidth * (step.dtype == DType::float32 ? 1 : 2);
  const int64_t in_vectors = std::max<int64_t>(0, piece - piece % unit - begin);
  const int64_t vectors = std::min(count, in_vectors);
  switch (step.opcode) {
#define PLIMSOLL_SERIES(opcode, Function, operands)                             \
  case Opcode::opcode:                                                          \
    loop<Function>(step, count, vectors, std::make_index_sequence<operands>()); \
    break;
    PLIMSOLL_SERIES(tanh_backward, TanhBackward, 2)
    PLIMSOLL_SERIES(sigmoid, Sigmoid, 1)
    PLIMSOLL_SERIES(silu, Silu, 1)
    PLIMSOLL_SERIES(silu_backward, SiluBackward, 2)
    PLIMSOLL_SERIES(gelu_tanh, GeluTanh, 1)
    PLIMSOLL_SERIES(gelu_tanh_backward, GeluTanhBackward, 2)
    PLIMSOLL_SERIES(softplus, Softplus, 3)
    PLIMSOLL_SERIES(softplus_backward, SoftplusBackward, 4)
#undef PLIMSOLL_SERIES
    default:
      return false;
  }
  if (step.dtype != DType::float32)
    fused_block_step({Opcode::cast, step.dtype, step.to, {step.to}}, count);  // rounded in place
  return true;
}

}  // namespace plimsoll::ops::series
