// How the optimizer operators keep numbers, and the kernels that unpack and pack them. No tensors, no allocation, no
// threads.
//
// Numbers of 8 and 4 bits are small floats without infinities, times a power of two that a block shares and that is
// kept as one byte (E8M0, as in the OCP microscaling formats, 2023). Running means that may be negative are E4M3 and
// E2M1; means of squares need no sign and twice the range: E5M3 and E3M1.
//
//     8 bits, blocks of 128:  E4M3  0, 2^-9 .. 448           E5M3  0, 2^-17 .. 122880
//     4 bits, blocks of 64:   E2M1  0, 0.5, 1 .. 4, 6        E3M1  0, 0.125, 0.25 .. 16, 24
//
// Rounding is stochastic: random bits are added below the last bit that is kept, and the rest is cut off. So a mean
// that decays by a thousandth a step does decay, on average, although a thousandth is far below the last bit. A square
// that is not zero is never rounded to zero, which the update would divide by (the zero-point problem: Li, Chen and Zhu
// 2023, "Memory efficient optimizers with 4-bit states"). Because the range of squares is that of the other mean,
// squared, an update that is small beside its block's largest may be rounded up to one learning rate, not above.
//
// Every value has at most four significant bits: float32 and bfloat16 hold it exactly.
#pragma once

#include <cstdint>

#include "ops/arithmetic/counter_random.h"

namespace plimsoll::ops {

enum class Format : uint8_t { float32, bfloat16, float16, float64, bits8, bits4 };

constexpr int64_t kBlock8 = 128, kBlock4 = 64;  ///< numbers that share a scale
/// A scale that says that its block holds something that is not finite.
constexpr uint8_t kNotFinite = 255;

/// Elements that are unpacked, updated and packed together: they stay in the first cache.
constexpr int64_t kChunk = 512;

PLIMSOLL_HOST_DEVICE constexpr int64_t scales_of(Format format, int64_t count) {
  const int64_t block = format == Format::bits8 ? kBlock8 : kBlock4;
  return (count + block - 1) / block;
}
/// Where the 8-bit code of number `i` of `count` lies. Of every 64 numbers sixteen each are the lowest, second, third
/// and highest bytes of sixteen 32-bit words (a vector of codes is had by a shift); the last ones, fewer than 64, lie
/// one after another.
PLIMSOLL_HOST_DEVICE constexpr int64_t place_of_bits8(int64_t i, int64_t count) {
  const int64_t group = i / 64 * 64, in = i - group;
  return group + 64 <= count ? group + in % 16 * 4 + in / 16 : i;
}
/// Bytes of 4-bit codes: two vectors of sixteen codes lie in one of sixteen bytes, the first in the low halves.
PLIMSOLL_HOST_DEVICE constexpr int64_t bytes_of_bits4(int64_t count) {
  return (count + 31) / 32 * 16;
}

/// The numbers of a flattened tensor.
struct Values {
  void* data = nullptr;
  uint8_t* scales = nullptr;  ///< bits8 and bits4 only
  Format format = Format::float32;
  bool squares = false;  ///< bits8 and bits4: without a sign
};

/// The random bits of a chunk: of its elements [128 b + 16 j, + 16) those of vector j of block b.
struct Drawn {
  alignas(64) uint32_t words[kChunk / kDrawnAtATime][4][16];
};
/// Those of the chunk that begins at element `begin`.
void draw_chunk(const Draw& draw, int64_t begin, Drawn& to);

/// How a packed number is rounded where its format has fewer bits than float32. Numbers of 8 and 4 bits are always
/// rounded stochastically.
struct Rounding {
  bool stochastic = false;
  Draw draw;
  const Drawn* drawn = nullptr;  ///< what `draw` gives for the chunk, where that is known already
};

/// What a parameter keeps beside itself, so that small updates are not lost.
enum class Companion : uint8_t {
  none,
  compensation,  ///< the parameter's type: the number is the sum of both
  remainder,     ///< int16, of bfloat16: bits of a float32 = (bits of the parameter << 16) + remainder
  master,        ///< float32: the number itself; the parameter is rounded from it
};
struct Weights {
  void* data = nullptr;
  void* companion = nullptr;
  Format format = Format::float32;  ///< not bits8, not bits4
  Companion kind = Companion::none;
};

// `begin` is a multiple of kChunk and `count` at most kChunk. float32 is never unpacked: callers work in place. `to`
// and `from` hold kChunk numbers; unpacking fills what is behind `count` up to the next 128 with zeros.

void unpack(const Values& values, int64_t begin, int64_t count, float* to);
void pack(const Values& values, int64_t begin, int64_t count, const float* from, const Rounding& rounding);

void unpack(const Weights& weights, int64_t begin, int64_t count, float* to);
void pack(const Weights& weights, int64_t begin, int64_t count, const float* from, const Rounding& rounding);

}  // namespace plimsoll::ops
