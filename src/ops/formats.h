// Implements the conversion of float32 to values of 8, 4 and 16 bits (formats.h). GPU kernels convert one value at a
// time, the CPU's a vector. `Float` is float or a GNU vector of floats; `Word` holds its bits.
#pragma once

#include <cstdint>
#include <type_traits>

#include "base/hash.h"
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

/// Returns a < b ? yes : no for a and b below 2^31. For vectors by arithmetic (ops/lanes.h says why).
template <typename Bits>
PLIMSOLL_HOST_DEVICE Bits where_less(Bits a, Bits b, Bits yes, Bits no) {
  if constexpr (std::is_arithmetic_v<Bits>) {
    return a < b ? yes : no;
  } else {
    const Bits mask = Bits{} - ((a - b) >> 31);
    return (yes & mask) | (no & ~mask);
  }
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
    const Word<Float> size = bits_of<Float>(y), limit = bits_of<Float>(smallest);
    const Word<Float> bits =
        where_less(size, limit, bits_of<Float>(y + smallest), size) + (random | (1u << (kRandom - 1)));
    return (bits >> kCut) - where_less(size, limit, spread<Word<Float>>(least << mantissa),
                                       spread<Word<Float>>((least - 1) << mantissa));
  }

  template <typename Float>
  PLIMSOLL_HOST_DEVICE static Float decode(Word<Float> code) {
    const Word<Float> limit = spread<Word<Float>>(1u << mantissa);
    const Word<Float> exponents =
        where_less(code, limit, spread<Word<Float>>(least << mantissa), spread<Word<Float>>((least - 1) << mantissa));
    const Float value = float_of<Float>((code + exponents) << kCut);
    return float_of<Float>(
        where_less(code, limit, bits_of<Float>(value - spread<Float>(power_of_two(least))), bits_of<Float>(value)));
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
  if constexpr (squares) return code | (((code - 1u) >> 31) & ((0u - magnitude) >> 31));
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
  return float_of<Float>(where_less(Word<Float>(bits & 0x7f800000u), spread<Word<Float>>(0x7f800000u), cut, bits));
}
template <typename Float>
PLIMSOLL_HOST_DEVICE Float rounded_to_float16(Float x, Word<Float> random) {
  // Below 2^-14 float16 values are evenly spaced; after adding 2^-14 all of them have one exponent.
  const Word<Float> bits = bits_of<Float>(x), sign = bits & 0x80000000u;
  const Float y = float_of<Float>(bits & 0x7fffffffu), smallest = spread<Float>(0x1p-14f);
  const Word<Float> size = bits_of<Float>(y), limit = bits_of<Float>(smallest);
  const Float cut =
      float_of<Float>((where_less(size, limit, bits_of<Float>(y + smallest), size) + (random >> 3)) & 0xffffe000u);
  const Word<Float> result = where_less(size, limit, bits_of<Float>(cut - smallest), bits_of<Float>(cut)) | sign;
  return float_of<Float>(where_less(Word<Float>(bits & 0x7f800000u), spread<Word<Float>>(0x7f800000u), result, bits));
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

// The number formats of the optimizer operators with their random bits, and the kernels that unpack and pack
// them. No tensors, no allocation, no threads.
//
// Values of 8 and 4 bits are small floats without infinities, times a power of two that a block shares. That scale is
// stored as one byte (E8M0, as in the OCP microscaling formats, 2023). Running means that may be negative are E4M3 and
// E2M1. Means of squares need no sign and twice the range: E5M3 and E3M1.
//
//     8 bits, blocks of 128:  E4M3  0, 2^-9 .. 448           E5M3  0, 2^-17 .. 122880
//     4 bits, blocks of 64:   E2M1  0, 0.5, 1 .. 4, 6        E3M1  0, 0.125, 0.25 .. 16, 24
//
// Rounding is stochastic: random bits are added below the last bit that is kept, and the rest is cut off. A mean that
// decays by a thousandth a step therefore does decay on average, although a thousandth is far below the last bit. A
// square that is not zero is never rounded to zero, because the update divides by it. That is the zero-point problem
// (Li, Chen and Zhu 2023, "Memory efficient optimizers with 4-bit states"). The range of squares is that of the other
// mean, squared. An update that is small compared with its block's largest may therefore be rounded up to one learning
// rate, not above.
//
// Every value has at most four significant bits: float32 and bfloat16 hold it exactly.

/// A source of random bits for one call of an operator: a key of 64 bits, and the index of the tensor that is rounded.
struct Draw {
  uint32_t key[2] = {0, 0};
  uint32_t stream = 0;
  int64_t first_element = 0;  ///< the element of the whole tensor at which a slice begins; a multiple of 512

  PLIMSOLL_HOST_DEVICE Draw of(uint32_t other_stream) const { return {{key[0], key[1]}, other_stream, first_element}; }
};

PLIMSOLL_HOST_DEVICE constexpr Draw draw_from_key(uint64_t key, int64_t first_element = 0) {
  return {{static_cast<uint32_t>(key), static_cast<uint32_t>(key >> 32)}, 0, first_element};
}

/// Returns the draw of an update, from a parameter's seed and the number of updates before. `first_element`: as in
/// Draw.
PLIMSOLL_HOST_DEVICE constexpr Draw draw_of_step(int64_t seed, double step, int64_t first_element = 0) {
  return draw_from_key(splitmix64(splitmix64(static_cast<uint64_t>(seed)) ^ static_cast<uint64_t>(step)),
                       first_element);
}

template <typename Word>
PLIMSOLL_HOST_DEVICE Word rotated(const Word& word, int by) {
  return (word << by) | (word >> (32 - by));
}

/// Transforms the four words of each of `many` counters into four random words. `Word` is uint32_t, or a vector of
/// them. Each round needs the result of the round before, so several interleaved counters keep a processor busy.
///
/// This is Threefry4x32 with 13 rounds (Salmon, Moraes, Dror and Shaw 2011, "Parallel random numbers: as easy as 1, 2,
/// 3"). It transforms a counter by additions, rotations and exclusive ors, which every vector unit has. It passes
/// BigCrush.
template <typename Word, int many>
PLIMSOLL_HOST_DEVICE void threefry(const uint32_t (&key)[4], Word (&x)[many][4]) {
  constexpr int kRotations[8][2] = {{10, 26}, {11, 21}, {13, 27}, {23, 5}, {6, 20}, {17, 11}, {25, 10}, {18, 20}};
  const uint32_t keys[5] = {key[0], key[1], key[2], key[3], 0x1bd11bdau ^ key[0] ^ key[1] ^ key[2] ^ key[3]};
  PLIMSOLL_UNROLL(4)
  for (int n = 0; n < many; ++n)
    for (int i = 0; i < 4; ++i) x[n][i] += keys[i];
  PLIMSOLL_UNROLL(13)
  for (int round = 0; round < 13; ++round) {
    const int a = round % 2 == 0 ? 1 : 3, b = round % 2 == 0 ? 3 : 1;
    PLIMSOLL_UNROLL(4)
    for (int n = 0; n < many; ++n) {
      x[n][0] += x[n][a];
      x[n][a] = rotated(x[n][a], kRotations[round % 8][0]) ^ x[n][0];
      x[n][2] += x[n][b];
      x[n][b] = rotated(x[n][b], kRotations[round % 8][1]) ^ x[n][2];
    }
    if (round % 4 != 3) continue;
    const uint32_t group = static_cast<uint32_t>(round) / 4 + 1;
    PLIMSOLL_UNROLL(4)
    for (int n = 0; n < many; ++n) {
      for (uint32_t i = 0; i < 4; ++i) x[n][i] += keys[(group + i) % 5];
      x[n][3] += group;
    }
  }
}

/// Elements that one counter of sixteen lanes serves, sixteen bits each.
constexpr int64_t kDrawnAtATime = 128;

/// Returns the sixteen random bits of element `index`: a function of the key and the index, the same for any number of
/// threads, in any order. The kernels draw the bits of 128 elements together (formats_cpu.cpp).
PLIMSOLL_HOST_DEVICE uint32_t random_bits(const Draw& draw, int64_t index) {
  const int64_t element = draw.first_element + index;
  const int64_t block = element / kDrawnAtATime, lane = element % 16, vector = element % kDrawnAtATime / 16;
  const auto counter = static_cast<uint64_t>(block * 16 + lane);
  uint32_t words[1][4] = {{static_cast<uint32_t>(counter), static_cast<uint32_t>(counter >> 32), 0, 0}};
  threefry<uint32_t, 1>({draw.key[0], draw.key[1], draw.stream, 0}, words);
  return (words[0][vector / 2] >> (vector % 2 * 16)) & 0xffffu;
}

/// The number formats of the optimizer operators.
enum class Format : uint8_t { float32, bfloat16, float16, float64, bits8, bits4 };

constexpr int64_t kBlock8 = 128, kBlock4 = 64;  ///< values that share a scale
/// The scale of a block that holds a value that is not finite.
constexpr uint8_t kNotFinite = 255;

/// Elements that are unpacked, updated and packed together: they stay in the first-level cache.
constexpr int64_t kChunk = 512;

PLIMSOLL_HOST_DEVICE constexpr int64_t scales_of(Format format, int64_t count) {
  const int64_t block = format == Format::bits8 ? kBlock8 : kBlock4;
  return (count + block - 1) / block;
}
/// Returns the byte index of the 8-bit code of value `i` of `count`. Each group of 64 codes is stored as sixteen 32-bit
/// words, so that a shift extracts a vector of codes. The lowest bytes of the words hold sixteen codes, and so do the
/// second, third and highest bytes. The last codes, fewer than 64, are stored in order.
PLIMSOLL_HOST_DEVICE constexpr int64_t place_of_bits8(int64_t i, int64_t count) {
  const int64_t group = i / 64 * 64, in = i - group;
  return group + 64 <= count ? group + in % 16 * 4 + in / 16 : i;
}
/// Returns the bytes of `count` 4-bit codes. Two vectors of sixteen codes share sixteen bytes, the first vector in the
/// low halves.
PLIMSOLL_HOST_DEVICE constexpr int64_t bytes_of_bits4(int64_t count) {
  return (count + 31) / 32 * 16;
}

/// The values of a flattened tensor.
struct Values {
  void* data = nullptr;
  uint8_t* scales = nullptr;  ///< bits8 and bits4 only
  Format format = Format::float32;
  bool squares = false;  ///< bits8 and bits4: without a sign
};

/// The random bits of a chunk. Vector j of block b serves its elements [128 b + 16 j, + 16).
struct Drawn {
  alignas(64) uint32_t words[kChunk / kDrawnAtATime][4][16];
};
/// Draws the random bits of the chunk that begins at element `begin`.
void draw_chunk(const Draw& draw, int64_t begin, Drawn& to);

/// A rounding rule for packed values whose format has fewer bits than float32. Values of 8 and 4 bits are always
/// rounded stochastically.
struct Rounding {
  bool stochastic = false;
  Draw draw;
  const Drawn* drawn = nullptr;  ///< bits of `draw` for the chunk, if already drawn; else null
};

/// An extra tensor of a parameter that keeps small updates from being lost.
enum class Companion : uint8_t {
  none,
  compensation,  ///< the parameter's type: the value is the sum of both
  remainder,     ///< int16, for bfloat16: bits of a float32 = (bits of the parameter << 16) + remainder
  master,        ///< float32: the value itself; the parameter is rounded from it
};
struct Weights {
  void* data = nullptr;
  void* companion = nullptr;
  Format format = Format::float32;  ///< not bits8, not bits4
  Companion kind = Companion::none;
};

// `begin` is a multiple of kChunk and `count` at most kChunk. float32 is never unpacked: callers work in place. `to`
// and `from` hold kChunk values; unpacking writes zeros from `count` up to the next multiple of 128.

void unpack(const Values& values, int64_t begin, int64_t count, float* to);
void pack(const Values& values, int64_t begin, int64_t count, const float* from, const Rounding& rounding);

void unpack(const Weights& weights, int64_t begin, int64_t count, float* to);
void pack(const Weights& weights, int64_t begin, int64_t count, const float* from, const Rounding& rounding);

}  // namespace plimsoll::ops
