// Implements loads, stores, exp, tanh and sin/cos of sixteen values at a time for the CPU kernels, without intrinsics.
//
// GCC and Clang lower their vector types to the instruction set of the function that the code is inlined into. One
// source therefore serves SSE2, AVX2 and AVX-512 (cpu_capability.h). The lane count does not depend on the machine:
// sums are taken in the same order everywhere. Only files of kernels, whose functions are compiled for each set,
// include this header.
#pragma once

#include <c10/util/BFloat16.h>
#include <c10/util/Half.h>

#include <cmath>
#include <cstdint>
#include <cstring>
#include <type_traits>

// Everything here is inlined, so the calling convention for wide vectors is never used.
#pragma GCC diagnostic ignored "-Wpsabi"
#define PLIMSOLL_INLINE [[gnu::always_inline]] inline

namespace plimsoll::ops::lanes {

constexpr int64_t kLanes = 16;

using Floats = float __attribute__((vector_size(64)));
using Doubles = double __attribute__((vector_size(128)));
using Ints = int32_t __attribute__((vector_size(64)));
using Words = uint32_t __attribute__((vector_size(64)));
using Longs = int64_t __attribute__((vector_size(128)));
using Halves = uint16_t __attribute__((vector_size(32)));

/// The types for arithmetic on elements of T: one value, and sixteen of them.
template <typename T>
struct Accumulate {
  using Scalar = float;
  using Vector = Floats;
};
template <>
struct Accumulate<double> {
  using Scalar = double;
  using Vector = Doubles;
};

/// The vector of sixteen `Scalar`s.
template <typename Scalar>
using VectorOf = typename Accumulate<Scalar>::Vector;

template <typename Vector, typename Scalar>
PLIMSOLL_INLINE Vector splat(Scalar value) {
  return Vector{} + value;
}

// A mask has all bits of a lane set if a condition holds there. Masks are made of the sign bits of differences: GCC
// splits a comparison of vectors wider than the set's registers into scalars. On AVX2 an exponential took four times as
// long so.

/// Returns `yes` in lanes whose bits of the mask are set, and `no` in the others. The types have the same size.
template <typename Mask, typename V>
PLIMSOLL_INLINE V select(const Mask& mask, const V& yes, const V& no) {
  return reinterpret_cast<V>((reinterpret_cast<Mask>(yes) & mask) | (reinterpret_cast<Mask>(no) & ~mask));
}

/// Returns the mask of lanes that are below 0.
PLIMSOLL_INLINE Ints negative(const Ints& x) {
  return x >> 31;
}
PLIMSOLL_INLINE Longs negative(const Longs& x) {
  return x >> 63;
}

PLIMSOLL_INLINE Ints is_nan(const Floats& x) {
  return negative(0x7f800000 - (reinterpret_cast<Ints>(x) & 0x7fffffff));
}

/// Returns the mask of lanes with a < b. Of NaNs, of equal infinities and of zeros with different signs, any mask.
PLIMSOLL_INLINE Ints below(const Floats& a, const Floats& b) {
  return negative(reinterpret_cast<Ints>(a - b));
}

/// Returns a < b ? yes : no, also with NaNs and infinities.
template <typename V>
PLIMSOLL_INLINE V where_below(const V& a, const V& b, const V& yes, const V& no) {
  if constexpr (std::is_same_v<V, Floats>) {
    // The difference is negative, and neither a zero nor a NaN: its bits are 0x80000001 to 0xff800000.
    const Words above_least = reinterpret_cast<Words>(V(a - b)) - 0x80000001U;
    return select(negative(reinterpret_cast<Ints>(~above_least & (above_least - 0x7f800000U))), yes, no);
  } else {
    return a < b ? yes : no;
  }
}

template <typename Raw>
PLIMSOLL_INLINE Raw read(const void* from) {
  Raw raw;
  std::memcpy(&raw, from, sizeof(Raw));
  return raw;
}

PLIMSOLL_INLINE Floats load(const float* from) {
  return read<Floats>(from);
}
PLIMSOLL_INLINE Doubles load(const double* from) {
  return read<Doubles>(from);
}
PLIMSOLL_INLINE Floats load(const c10::BFloat16* from) {
  return reinterpret_cast<Floats>(__builtin_convertvector(read<Halves>(from), Words) << 16);
}
PLIMSOLL_INLINE Floats load(const c10::Half* from) {
  const Words bits = __builtin_convertvector(read<Halves>(from), Words);
  const Words magnitude = (bits & 0x7fffu) << 13;
  // Multiplying by 2^112 moves the exponent into float's range. It also converts subnormal float16 values correctly.
  const Floats finite = reinterpret_cast<Floats>(magnitude) * 0x1p112f;
  const Words special = magnitude + (112u << 23) + (112u << 23);
  const Words value = select(reinterpret_cast<Words>(negative(reinterpret_cast<Ints>(magnitude) - (31 << 23))),
                             reinterpret_cast<Words>(finite), special);
  return reinterpret_cast<Floats>(value | ((bits & 0x8000u) << 16));
}

PLIMSOLL_INLINE void store(float* to, Floats value) {
  std::memcpy(to, &value, sizeof(value));
}
PLIMSOLL_INLINE void store(double* to, Doubles value) {
  std::memcpy(to, &value, sizeof(value));
}
PLIMSOLL_INLINE void store(c10::BFloat16* to, Floats value) {
  const Words bits = reinterpret_cast<Words>(value);
  // Round to nearest, ties to even; a NaN stays a NaN.
  const Words rounded = (bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16;
  const Words kept = select(reinterpret_cast<Words>(is_nan(value)), Words((bits >> 16) | 0x40u), rounded);
  const Halves narrow = __builtin_convertvector(kept, Halves);
  std::memcpy(static_cast<void*>(to), &narrow, sizeof(narrow));
}
PLIMSOLL_INLINE void store(c10::Half* to, Floats value) {
  for (int64_t i = 0; i < kLanes; ++i) to[i] = static_cast<c10::Half>(value[i]);
}

/// Rounds to the nearest bfloat16, ties to even, in the upper half of each word. The payload of a NaN is not handled: a
/// NaN with all bits of both halves set would become a zero. Neither arithmetic nor widening of 16-bit values makes
/// such a NaN.
PLIMSOLL_INLINE Words upper_bits(const Floats& value) {
  const Words bits = reinterpret_cast<Words>(value);
  return bits + (0x7fffu + ((bits >> 16) & 1u));
}
PLIMSOLL_INLINE void store_pair(uint32_t* to, const Floats& even, const Floats& odd) {
  const Words pair = (upper_bits(even) >> 16) | (upper_bits(odd) & 0xffff0000u);
  std::memcpy(to, &pair, sizeof(pair));
}

/// Returns the value that is read back after it was stored as T.
template <typename T>
PLIMSOLL_INLINE Floats rounded_to(Floats value) {
  if constexpr (std::is_same_v<T, c10::BFloat16>)
    return reinterpret_cast<Floats>(upper_bits(value) & 0xffff0000u);
  else
    return value;
}

/// Load and store the first `count` of sixteen values. The others are zero on loading and unchanged on storing.
template <typename T>
PLIMSOLL_INLINE auto load(const T* from, int64_t count) {
  T padded[kLanes]{};
  std::memcpy(static_cast<void*>(padded), from, static_cast<size_t>(count) * sizeof(T));
  return load(static_cast<const T*>(padded));
}
template <typename T, typename Vector>
PLIMSOLL_INLINE void store(T* to, const Vector& value, int64_t count) {
  T padded[kLanes];
  store(static_cast<T*>(padded), value);
  std::memcpy(static_cast<void*>(to), padded, static_cast<size_t>(count) * sizeof(T));
}

/// Heads a loop over [0, size) in steps of sixteen. `i` is the first index of a step; `n` is the number of elements
/// left if fewer than sixteen, else 0. It is a macro because a lambda does not inherit the target attribute of its
/// enclosing function.
#define PLIMSOLL_FOR_LANES(i, n, size)                                        \
  for (int64_t i = 0, n = 0; i < (size); i += ::plimsoll::ops::lanes::kLanes) \
    if (n = (size)-i < ::plimsoll::ops::lanes::kLanes ? (size)-i : 0; true)

template <typename T>
PLIMSOLL_INLINE auto load_some(const T* from, int64_t partial) {
  return partial ? load(from, partial) : load(from);
}
template <typename T, typename Vector>
PLIMSOLL_INLINE void store_some(T* to, const Vector& value, int64_t partial) {
  if (partial)
    store(to, value, partial);
  else
    store(to, value);
}

template <typename Vector>
PLIMSOLL_INLINE auto sum(const Vector& lanes) {
  Vector v = lanes;
  for (int64_t width = kLanes / 2; width > 0; width /= 2)
    for (int64_t i = 0; i < width; ++i) v[i] += v[i + width];
  return v[0];
}
template <typename Vector>
PLIMSOLL_INLINE auto largest(const Vector& v) {
  auto best = v[0];
  for (int64_t i = 1; i < kLanes; ++i) best = v[i] > best ? v[i] : best;
  return best;
}
/// Returns the larger of two values; of a NaN and another value, or of two zeros, either.
template <typename Vector>
PLIMSOLL_INLINE Vector larger(const Vector& a, const Vector& b) {
  if constexpr (std::is_same_v<Vector, Floats>)
    return select(below(b, a), a, b);
  else
    return a > b ? a : b;
}
/// Returns the larger of two values from 0 on.
PLIMSOLL_INLINE Ints larger(const Ints& a, const Ints& b) {
  return select(negative(b - a), a, b);
}

/// Computes e^x to one or two units in the last place; 0 below float's normal range, infinity above it, NaN for NaN.
/// Range reduction and polynomial are those of Cephes' expf (S. Moshier).
PLIMSOLL_INLINE Floats exp(Floats x) {
  const Floats low = splat<Floats>(-87.33654f), high = splat<Floats>(88.72283f);
  const Ints too_low = below(x, low), too_high = below(high, x);
  const Floats y = select(too_high, high, select(too_low, low, x));
  const Floats shift = splat<Floats>(12582912.0f);  // 1.5 x 2^23: adding it rounds to a whole number
  const Floats shifted = y * 1.44269504088896341f + shift;
  const Floats n = shifted - shift;
  Floats r = y - n * 0.693359375f;
  r = r - n * -2.12194440e-4f;
  Floats p = r * 1.9875691500e-4f + 1.3981999507e-3f;
  p = p * r + 8.3334519073e-3f;
  p = p * r + 4.1665795894e-2f;
  p = p * r + 1.6666665459e-1f;
  p = p * r + 5.0000001201e-1f;
  p = p * (r * r) + r + 1.0f;
  const Ints power = reinterpret_cast<Ints>(shifted) - reinterpret_cast<Ints>(shift);
  // The power is applied in two halves, because 2^128 is not a float.
  const Ints half = power >> 1;
  p = p * reinterpret_cast<Floats>((half + 127) << 23);
  p = p * reinterpret_cast<Floats>((power - half + 127) << 23);
  p = reinterpret_cast<Floats>(reinterpret_cast<Ints>(p) & ~too_low);
  p = select(too_high, splat<Floats>(__builtin_inff()), p);
  return select(is_nan(x), x, p);
}
PLIMSOLL_INLINE Doubles exp(Doubles x) {
  for (int64_t i = 0; i < kLanes; ++i) x[i] = std::exp(x[i]);
  return x;
}

constexpr double kLog2E = 1.44269504088896340736;

/// Computes 2^x for x up to 0, to one or two units in the last place; 0 below float's normal range, NaN for NaN. A
/// positive x counts as 0: x is a distance from the largest of some values, which only rounding makes positive. The
/// polynomial is that of Cephes' exp2f (S. Moshier).
PLIMSOLL_INLINE Floats power_of_two(Floats x) {
  const Floats low = splat<Floats>(-127.0f), high = splat<Floats>(0.0f);
  const Floats y = select(below(high, x), high, select(below(x, low), low, x));
  // Adding 1.5 x 2^23 rounds to a whole number n. With 127 more the lowest bits are the exponent of 2^n. Exponent 0
  // means 2^-127 and is treated as 0.
  const Floats shift = splat<Floats>(12582912.0f + 127.0f);
  const Floats shifted = y + shift;
  const Floats r = y - (shifted - shift);
  Floats p = r * 1.535336188319500e-4f + 1.339887440266574e-3f;
  p = p * r + 9.618437357674640e-3f;
  p = p * r + 5.550332471162809e-2f;
  p = p * r + 2.402264791363012e-1f;
  p = p * r + 6.931472028550421e-1f;
  p = p * r + 1.0f;
  return select(is_nan(x), x, Floats(p * reinterpret_cast<Floats>(reinterpret_cast<Words>(shifted) << 23)));
}
PLIMSOLL_INLINE Doubles power_of_two(Doubles x) {
  for (int64_t i = 0; i < kLanes; ++i) x[i] = x[i] > 0 ? 1 : std::exp2(x[i]);
  return x;
}

/// Computes the hyperbolic tangent to one or two units in the last place. Small arguments use a polynomial, as in
/// Cephes' tanhf.
PLIMSOLL_INLINE Floats tanh(Floats x) {
  const Floats z = x * x;
  Floats p = z * -5.70498872745e-3f + 2.06390887954e-2f;
  p = p * z - 5.37397155531e-2f;
  p = p * z + 1.33314422036e-1f;
  p = p * z - 3.33332819422e-1f;
  const Floats near = p * z * x + x;
  const Words sign = reinterpret_cast<Words>(x) & 0x80000000U;
  const auto size = reinterpret_cast<Floats>(reinterpret_cast<Words>(x) & 0x7fffffffU);
  const Floats far = 1 - 2 / (exp(size + size) + 1);
  return select(below(size, splat<Floats>(0.625f)), near,
                reinterpret_cast<Floats>(reinterpret_cast<Words>(far) | sign));
}
PLIMSOLL_INLINE Doubles tanh(Doubles x) {
  for (int64_t i = 0; i < kLanes; ++i) x[i] = std::tanh(x[i]);
  return x;
}

/// Returns the value, or minus the value in the third and the fourth quadrant.
PLIMSOLL_INLINE Floats signed_by(const Floats& value, const Ints& quadrant) {
  return reinterpret_cast<Floats>(reinterpret_cast<Ints>(value) ^ ((quadrant & 2) << 30));
}

/// Computes sine and cosine of angles in radians. The angle is reduced in double, so positions of millions stay exact
/// to float.
PLIMSOLL_INLINE void sin_cos(Doubles angle, Floats& sine, Floats& cosine) {
  const Doubles shift = splat<Doubles>(6755399441055744.0);  // 1.5 x 2^52
  const Doubles shifted = angle * 0.63661977236758134308 + shift;
  const Doubles quarters = shifted - shift;
  const Doubles reduced = (angle - quarters * 1.5707963267948966192) - quarters * 6.123233995736766e-17;
  const Floats r = __builtin_convertvector(reduced, Floats), z = r * r;
  const Floats s = ((z * -1.9515295891e-4f + 8.3321608736e-3f) * z - 1.6666654611e-1f) * z * r + r;
  const Floats c =
      ((z * 2.443315711809948e-5f - 1.388731625493765e-3f) * z + 4.166664568298827e-2f) * z * z - z * 0.5f + 1.0f;
  const Ints quadrant = __builtin_convertvector(reinterpret_cast<Longs>(shifted), Ints) & 3;
  const Ints odd = negative(quadrant << 31);
  sine = signed_by(select(odd, c, s), quadrant);
  cosine = signed_by(select(odd, s, c), quadrant + 1);
}
PLIMSOLL_INLINE void sin_cos(Doubles angle, Doubles& sine, Doubles& cosine) {
  for (int64_t i = 0; i < kLanes; ++i) {
    sine[i] = std::sin(angle[i]);
    cosine[i] = std::cos(angle[i]);
  }
}

}  // namespace plimsoll::ops::lanes
