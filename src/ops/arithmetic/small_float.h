// Implements the conversion of float32 to values of 8, 4 and 16 bits (formats.h). GPU kernels convert one value at a
// time, the CPU's a vector. `Float` is float or a GNU vector of floats; `Word` holds its bits.
#pragma once

#include <cstdint>

#include "ops/host_device.h"

namespace plimsoll::ops {

template <typename Float>
struct Bits {
  using Word = uint32_t;
};
template <typename Float>
using Word = typename Bits<Float>::Word;

template <typename Float>
PLIMSOLL_HOST_DEVICE Word<Float> bits_of(Float x) {
  return __builtin_bit_cast(Word<Float>, x);
}
template <typename Float>
PLIMSOLL_HOST_DEVICE Float float_of(Word<Float> bits) {
  return __builtin_bit_cast(Float, bits);
}
/// Returns `value` itself, or a vector with `value` in every lane.
template <typename To, typename Scalar>
PLIMSOLL_HOST_DEVICE To spread(Scalar value) {
  return To{} + value;
}
/// Returns 2^(exponent - 127); zero for 0 and infinity for 255.
PLIMSOLL_HOST_DEVICE float power_of_two(uint32_t exponent) {
  return __builtin_bit_cast(float, exponent << 23);
}

/// A float format with a mantissa of `mantissa` bits. `least` is the biased float32 exponent of the smallest normal
/// value. `top` is the unbiased exponent of the largest value, and `largest` the mantissa of that value in float32.
template <int mantissa, uint32_t least, uint32_t top, uint32_t largest>
struct SmallFloat {
  static constexpr int kCut = 23 - mantissa;

  /// Returns the scale of a block from the bits of its largest magnitude; 255: the block is not finite.
  PLIMSOLL_HOST_DEVICE static uint32_t scale(uint32_t magnitude) {
    if (magnitude >= 0x7f800000u) return 255;
    const uint32_t exponent = (magnitude + (0x7fffffu - largest)) >> 23;
    return exponent > top ? exponent - top : 1;
  }
  /// Returns the factor that the values of a block of that scale are multiplied by.
  PLIMSOLL_HOST_DEVICE static float inverse(uint32_t scale) { return power_of_two(254 - (scale == 255 ? 1 : scale)); }

  /// The lowest bit position at which `encode` expects its sixteen random bits.
  static constexpr int kRandom = kCut - 16;

  /// Returns the codes of magnitudes `y`, scaled so that they are in range. Below the smallest normal value codes are
  /// evenly spaced; such magnitudes get the spacing of normal values by adding that value.
  template <typename Float>
  PLIMSOLL_HOST_DEVICE static Word<Float> encode(Float y, Word<Float> random) {
    const Float smallest = spread<Float>(power_of_two(least));
    const auto small = y < smallest;
    const Word<Float> bits = bits_of<Float>(small ? y + smallest : y) + (random | (1u << (kRandom - 1)));
    return (bits >> kCut) -
           (small ? spread<Word<Float>>(least << mantissa) : spread<Word<Float>>((least - 1) << mantissa));
  }

  template <typename Float>
  PLIMSOLL_HOST_DEVICE static Float decode(Word<Float> code) {
    const auto small = code < (1u << mantissa);
    const Word<Float> exponents =
        small ? spread<Word<Float>>(least << mantissa) : spread<Word<Float>>((least - 1) << mantissa);
    const Float value = float_of<Float>((code + exponents) << kCut);
    return small ? value - spread<Float>(power_of_two(least)) : value;
  }
};
using E4M3 = SmallFloat<3, 121, 8, 0x600000>;
using E5M3 = SmallFloat<3, 113, 16, 0x700000>;
using E2M1 = SmallFloat<1, 127, 2, 0x400000>;
using E3M1 = SmallFloat<1, 125, 4, 0x400000>;

/// Returns the codes of values, with the sign above the other bits.
template <typename Small, bool squares, int code_bits, typename Float>
PLIMSOLL_HOST_DEVICE Word<Float> codes_of(Float x, float inverse, Word<Float> random) {
  constexpr uint32_t mask = (1u << (squares ? code_bits : code_bits - 1)) - 1;
  const Word<Float> bits = bits_of<Float>(x), magnitude = bits & 0x7fffffffu;
  const Word<Float> code = Small::template encode<Float>(float_of<Float>(magnitude) * inverse, random) & mask;
  // A square that is not zero does not become zero.
  if constexpr (squares) return (code == 0u) & (magnitude != 0u) ? spread<Word<Float>>(1u) : code;
  return code | ((bits >> (32 - code_bits)) & (1u << (code_bits - 1)));
}

template <typename Small, bool squares, int code_bits, typename Float>
PLIMSOLL_HOST_DEVICE Float numbers_of(Word<Float> code, float scale) {
  constexpr uint32_t mask = (1u << (squares ? code_bits : code_bits - 1)) - 1;
  const Float magnitude = Small::template decode<Float>(code & mask) * scale;
  if constexpr (squares) return magnitude;
  return float_of<Float>(bits_of<Float>(magnitude) | ((code & (1u << (code_bits - 1))) << (32 - code_bits)));
}

// Rounds stochastically to a wider type's upper bits, by sixteen random bits. Values that are not finite stay
// unchanged.
template <typename Float>
PLIMSOLL_HOST_DEVICE Float rounded_to_bfloat16(Float x, Word<Float> random) {
  const Word<Float> bits = bits_of<Float>(x);
  const Word<Float> cut = (bits + random) & 0xffff0000u;
  return float_of<Float>((bits & 0x7f800000u) == 0x7f800000u ? bits : cut);
}
template <typename Float>
PLIMSOLL_HOST_DEVICE Float rounded_to_float16(Float x, Word<Float> random) {
  // Below 2^-14 float16 values are evenly spaced; after adding 2^-14 all of them have one exponent.
  const Word<Float> bits = bits_of<Float>(x), sign = bits & 0x80000000u;
  const Float y = float_of<Float>(bits & 0x7fffffffu), smallest = spread<Float>(0x1p-14f);
  const auto small = y < smallest;
  const Float cut = float_of<Float>((bits_of<Float>(small ? y + smallest : y) + (random >> 3)) & 0xffffe000u);
  const Word<Float> result = bits_of<Float>(small ? cut - smallest : cut) | sign;
  return float_of<Float>((bits & 0x7f800000u) == 0x7f800000u ? bits : result);
}

/// Returns the bits of the nearest bfloat16, ties to even; a NaN stays a NaN.
PLIMSOLL_HOST_DEVICE uint16_t nearest_bfloat16(float x) {
  const uint32_t bits = bits_of<float>(x);
  const uint32_t nearest = (bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16;
  return static_cast<uint16_t>((bits & 0x7fffffffu) > 0x7f800000u ? (bits >> 16) | 0x40u : nearest);
}

// The next three functions convert between a float32 and its halves, a bfloat16 and 16 bits. The upper half, rounded to
// nearest, is the parameter; joined() subtracts what the rounding added.
template <typename Float>
PLIMSOLL_HOST_DEVICE Float joined(Word<Float> upper, Word<Float> lower) {
  return float_of<Float>((upper << 16) + (lower ^ 0x8000u) - 0x8000u);
}
template <typename Float>
PLIMSOLL_HOST_DEVICE Word<Float> upper_half(Float x) {
  return (bits_of<Float>(x) + 0x8000u) >> 16;
}
template <typename Float>
PLIMSOLL_HOST_DEVICE Word<Float> lower_half(Float x) {
  return bits_of<Float>(x) & 0xffffu;
}

}  // namespace plimsoll::ops
