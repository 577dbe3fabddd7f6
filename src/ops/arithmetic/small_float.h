// How numbers of 8, 4 and 16 bits are made of float32 (formats.h): one at a time, as GPU kernels take them, or many, as
// the CPU's do. `Float` is float or a GNU vector of floats, `Word` what holds its bits.
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
/// `value` itself, or in every lane.
template <typename To, typename Scalar>
PLIMSOLL_HOST_DEVICE To spread(Scalar value) {
  return To{} + value;
}
/// 2^(exponent - 127); 0 and 255: zero and infinity.
PLIMSOLL_HOST_DEVICE float power_of_two(uint32_t exponent) {
  return __builtin_bit_cast(float, exponent << 23);
}

/// A float of `mantissa` bits. `least` is the exponent, as float32 writes it, of the smallest normal number; `top` that
/// of the largest, without float32's bias, and `largest` its mantissa in float32.
template <int mantissa, uint32_t least, uint32_t top, uint32_t largest>
struct SmallFloat {
  static constexpr int kCut = 23 - mantissa;

  /// The scale of a block, given the bits of its largest magnitude; 255 says that it is not finite.
  PLIMSOLL_HOST_DEVICE static uint32_t scale(uint32_t magnitude) {
    if (magnitude >= 0x7f800000u) return 255;
    const uint32_t exponent = (magnitude + (0x7fffffu - largest)) >> 23;
    return exponent > top ? exponent - top : 1;
  }
  /// What the numbers of a block of that scale are multiplied by.
  PLIMSOLL_HOST_DEVICE static float inverse(uint32_t scale) { return power_of_two(254 - (scale == 255 ? 1 : scale)); }

  /// Where `encode` wants its sixteen random bits, from the lowest.
  static constexpr int kRandom = kCut - 16;

  /// Codes of magnitudes `y`, scaled so that they are in range; below the smallest normal number codes are evenly
  /// spaced, which adding that number makes of all others too.
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

/// Codes of numbers, the sign above the rest.
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

// Stochastic rounding to a wider type's upper bits, by sixteen random ones; what is not finite stays as it is.
template <typename Float>
PLIMSOLL_HOST_DEVICE Float rounded_to_bfloat16(Float x, Word<Float> random) {
  const Word<Float> bits = bits_of<Float>(x);
  const Word<Float> cut = (bits + random) & 0xffff0000u;
  return float_of<Float>((bits & 0x7f800000u) == 0x7f800000u ? bits : cut);
}
template <typename Float>
PLIMSOLL_HOST_DEVICE Float rounded_to_float16(Float x, Word<Float> random) {
  // Below 2^-14 halves are evenly spaced; adding that number gives all of them one exponent.
  const Word<Float> bits = bits_of<Float>(x), sign = bits & 0x80000000u;
  const Float y = float_of<Float>(bits & 0x7fffffffu), smallest = spread<Float>(0x1p-14f);
  const auto small = y < smallest;
  const Float cut = float_of<Float>((bits_of<Float>(small ? y + smallest : y) + (random >> 3)) & 0xffffe000u);
  const Word<Float> result = bits_of<Float>(small ? cut - smallest : cut) | sign;
  return float_of<Float>((bits & 0x7f800000u) == 0x7f800000u ? bits : result);
}

/// The bits of the nearest bfloat16, ties to even; a NaN stays one.
PLIMSOLL_HOST_DEVICE uint16_t nearest_bfloat16(float x) {
  const uint32_t bits = bits_of<float>(x);
  const uint32_t nearest = (bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16;
  return static_cast<uint16_t>((bits & 0x7fffffffu) > 0x7f800000u ? (bits >> 16) | 0x40u : nearest);
}

// A bfloat16 and the lower half of a float32. The upper half, rounded to nearest, is the parameter; what the rounding
// added comes off again.
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
