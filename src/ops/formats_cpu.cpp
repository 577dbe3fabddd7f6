#include "ops/formats.h"

#include "ops/cpu_capability.h"
#include "ops/lanes.h"
#include "plimsoll/error.h"

namespace plimsoll::ops {

template <>
struct Bits<lanes::Floats> {
  using Word = lanes::Words;
};

using c10::BFloat16;
using c10::Half;
using namespace lanes;

namespace {

using Bytes = uint8_t __attribute__((vector_size(16)));

// The conversion has two steps: GCC splits a conversion to a type four times as wide into single elements.
PLIMSOLL_INLINE Words words_of(Bytes bytes) {
  return __builtin_convertvector(__builtin_convertvector(bytes, Halves), Words);
}
PLIMSOLL_INLINE Bytes bytes_of(Words words) {
  return __builtin_convertvector(__builtin_convertvector(words, Halves), Bytes);
}

constexpr int64_t kVectors = kDrawnAtATime / kLanes;

/// Returns sixteen random bits a lane, shifted left by `up` bits.
template <int up = 0>
PLIMSOLL_INLINE Words bits_at(const Drawn& drawn, int64_t b, int64_t j) {
  const Words words = read<Words>(drawn.words[b][j / 2]);
  return (j % 2 == 0 ? words << up : words >> (16 - up)) & (0xffffu << up);
}
alignas(64) constexpr uint32_t kLaneNumbers[kLanes] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};
PLIMSOLL_INLINE void draw_words(const Draw& draw, int64_t element, Drawn& to) {
  // GCC would build the sum of a constant vector and a scalar lane by lane.
  const uint32_t* lane_numbers = kLaneNumbers;
  asm("" : "+r"(lane_numbers));
  const auto counter = static_cast<uint64_t>((draw.first_element + element) / kDrawnAtATime * kLanes);
  Words words[kChunk / kDrawnAtATime][4];
  for (uint32_t b = 0; b < kChunk / kDrawnAtATime; ++b) {
    // Chunks begin at multiples of 512 elements: the lower half does not overflow within a chunk.
    words[b][0] = read<Words>(lane_numbers) + (static_cast<uint32_t>(counter) + b * static_cast<uint32_t>(kLanes));
    words[b][1] = splat<Words>(static_cast<uint32_t>(counter >> 32));
    words[b][2] = words[b][3] = Words{};
  }
  threefry({draw.key[0], draw.key[1], draw.stream, 0}, words);
  std::memcpy(to.words, words, sizeof(words));
}

template <int64_t vectors>
PLIMSOLL_INLINE uint32_t largest_magnitude(const float* from) {
  Ints most{};
  for (int64_t j = 0; j < vectors; ++j)
    most = larger(most, reinterpret_cast<Ints>(bits_of<Floats>(load(from + j * kLanes)) & 0x7fffffffu));
  // The vector is reduced by halves: a reduction lane by lane takes as long as the rest of the function.
  most = larger(most, __builtin_shuffle(most, Ints{8, 9, 10, 11, 12, 13, 14, 15, 0, 1, 2, 3, 4, 5, 6, 7}));
  most = larger(most, __builtin_shuffle(most, Ints{4, 5, 6, 7, 0, 1, 2, 3, 12, 13, 14, 15, 8, 9, 10, 11}));
  most = larger(most, __builtin_shuffle(most, Ints{2, 3, 0, 1, 6, 7, 4, 5, 10, 11, 8, 9, 14, 15, 12, 13}));
  most = larger(most, __builtin_shuffle(most, Ints{1, 0, 3, 2, 5, 4, 7, 6, 9, 8, 11, 10, 13, 12, 15, 14}));
  return static_cast<uint32_t>(most[0]);
}

// Four vectors of codes share one vector of words, the first in the lowest bytes: shifts are cheaper than widening
// bytes.
constexpr int64_t kGroup = 4 * kLanes;

template <typename Small, bool squares>
PLIMSOLL_INLINE void pack8(uint8_t* codes, uint8_t* scales, int64_t begin, int64_t count, const float* from,
                           const Drawn& drawn) {
  for (int64_t i = 0; i < count; i += kBlock8) {
    const uint32_t scale = Small::scale(largest_magnitude<kVectors>(from + i));
    const float inverse = Small::inverse(scale);
    scales[(begin + i) / kBlock8] = static_cast<uint8_t>(scale);
    for (int64_t group = 0; group < kBlock8 && i + group < count; group += kGroup) {
      const int64_t left = count - i - group;
      Words code[4];
      for (int64_t k = 0; k < 4; ++k)
        code[k] = codes_of<Small, squares, 8, Floats>(load(from + i + group + k * kLanes), inverse,
                                                      bits_at<Small::kRandom>(drawn, i / kBlock8, group / kLanes + k));
      uint8_t* to = codes + begin + i + group;
      if (left >= kGroup) {
        const Words four = code[0] | (code[1] << 8) | (code[2] << 16) | (code[3] << 24);
        std::memcpy(to, &four, sizeof(four));
        continue;
      }
      Bytes one_after_another[4];
      for (int64_t k = 0; k < 4; ++k) one_after_another[k] = bytes_of(code[k]);
      std::memcpy(to, one_after_another, static_cast<size_t>(left));
    }
  }
}

template <typename Small, bool squares>
PLIMSOLL_INLINE void unpack8(const uint8_t* codes, const uint8_t* scales, int64_t begin, int64_t count, float* to) {
  for (int64_t i = 0; i < count; i += kGroup) {
    const float scale = power_of_two(scales[(begin + i) / kBlock8]);
    const uint8_t* from = codes + begin + i;
    if (count - i >= kGroup) {
      const Words four = read<Words>(from);
      store(to + i, numbers_of<Small, squares, 8, Floats>(four, scale));
      store(to + i + kLanes, numbers_of<Small, squares, 8, Floats>(four >> 8, scale));
      store(to + i + 2 * kLanes, numbers_of<Small, squares, 8, Floats>(four >> 16, scale));
      store(to + i + 3 * kLanes, numbers_of<Small, squares, 8, Floats>(four >> 24, scale));
      continue;
    }
    uint8_t rest[kGroup] = {};
    std::memcpy(rest, from, static_cast<size_t>(count - i));
    for (int64_t k = 0; k < 4; ++k)
      store(to + i + k * kLanes,
            numbers_of<Small, squares, 8, Floats>(words_of(read<Bytes>(rest + k * kLanes)), scale));
  }
  for (int64_t i = (count + kGroup - 1) / kGroup * kGroup; i % kDrawnAtATime != 0; ++i) to[i] = 0;
}

template <typename Small, bool squares>
PLIMSOLL_INLINE void pack4(uint8_t* codes, uint8_t* scales, int64_t begin, int64_t count, const float* from,
                           const Drawn& drawn) {
  for (int64_t i = 0; i < count; i += kDrawnAtATime) {
    for (int64_t half = 0; half < 2 && i + half * kBlock4 < count; ++half) {
      const int64_t first = i + half * kBlock4;
      const uint32_t scale = Small::scale(largest_magnitude<kBlock4 / kLanes>(from + first));
      const float inverse = Small::inverse(scale);
      scales[(begin + first) / kBlock4] = static_cast<uint8_t>(scale);
      for (int64_t j = 0; j < kBlock4 / kLanes && first + j * kLanes < count; j += 2) {
        const float* x = from + first + j * kLanes;
        const int64_t vector = half * (kBlock4 / kLanes) + j;
        const Words low = codes_of<Small, squares, 4, Floats>(
            load(x), inverse, bits_at<Small::kRandom>(drawn, i / kDrawnAtATime, vector));
        const Words high = codes_of<Small, squares, 4, Floats>(
            load(x + kLanes), inverse, bits_at<Small::kRandom>(drawn, i / kDrawnAtATime, vector + 1));
        const Bytes bytes = bytes_of(low | (high << 4));
        std::memcpy(codes + (begin + first + j * kLanes) / 2, &bytes, sizeof(bytes));
      }
    }
  }
}

template <typename Small, bool squares>
PLIMSOLL_INLINE void unpack4(const uint8_t* codes, const uint8_t* scales, int64_t begin, int64_t count, float* to) {
  for (int64_t i = 0; i < count; i += 2 * kLanes) {
    const float scale = power_of_two(scales[(begin + i) / kBlock4]);
    const Words bytes = words_of(read<Bytes>(codes + (begin + i) / 2));
    store(to + i, numbers_of<Small, squares, 4, Floats>(bytes & 15u, scale));
    store(to + i + kLanes, numbers_of<Small, squares, 4, Floats>(bytes >> 4, scale));
  }
  for (int64_t i = (count + 31) / 32 * 32; i % kDrawnAtATime != 0; ++i) to[i] = 0;
}

template <typename T>
PLIMSOLL_INLINE Floats rounded(Floats x, Words random) {
  if constexpr (std::is_same_v<T, BFloat16>) return rounded_to_bfloat16<Floats>(x, random);
  return rounded_to_float16<Floats>(x, random);
}

template <typename T>
PLIMSOLL_INLINE void widen(const T* from, int64_t count, float* to) {
  PLIMSOLL_FOR_LANES(i, partial, count) store(to + i, load_some(from + i, partial));
  for (int64_t i = (count + kLanes - 1) / kLanes * kLanes; i % kDrawnAtATime != 0; ++i) to[i] = 0;
}
template <typename T>
PLIMSOLL_INLINE void narrow(T* to, int64_t begin, int64_t count, const float* from, Rounding rounding) {
  if (!rounding.stochastic) {
    PLIMSOLL_FOR_LANES(i, partial, count) store_some(to + i, load_some(from + i, partial), partial);
    return;
  }
  const Drawn& drawn = *rounding.drawn;
  const int64_t whole = count / kLanes;
  for (int64_t j = 0; j < whole; ++j)
    store(to + j * kLanes, rounded<T>(load(from + j * kLanes), bits_at(drawn, j / kVectors, j % kVectors)));
  if (const int64_t rest = count % kLanes; rest > 0)
    store(to + whole * kLanes,
          rounded<T>(load(from + whole * kLanes, rest), bits_at(drawn, whole / kVectors, whole % kVectors)), rest);
}

template <typename T>
PLIMSOLL_INLINE void add_compensation(const T* parameter, const T* compensation, int64_t count, float* to) {
  PLIMSOLL_FOR_LANES(i, partial, count)
  store(to + i, load_some(parameter + i, partial) + load_some(compensation + i, partial));
}
template <typename T>
PLIMSOLL_INLINE void split_compensation(T* parameter, T* compensation, int64_t count, const float* from) {
  PLIMSOLL_FOR_LANES(i, partial, count) {
    const Floats x = load(from + i);
    T nearest[kLanes];
    store(static_cast<T*>(nearest), x);
    store_some(parameter + i, load(static_cast<const T*>(nearest)), partial);
    store_some(compensation + i, x - load(static_cast<const T*>(nearest)), partial);
  }
}

// The size of a copy is a constant if possible: a copy of a variable size is a function call.
PLIMSOLL_INLINE Halves read_halves(const void* from, int64_t partial) {
  if (partial == 0) return read<Halves>(from);
  Halves halves{};
  std::memcpy(&halves, from, static_cast<size_t>(partial) * 2);
  return halves;
}
PLIMSOLL_INLINE void write_halves(void* to, Words words, int64_t partial) {
  const Halves halves = __builtin_convertvector(words, Halves);
  if (partial == 0)
    std::memcpy(to, &halves, sizeof(halves));
  else
    std::memcpy(to, &halves, static_cast<size_t>(partial) * 2);
}

PLIMSOLL_INLINE void join_halves(const uint16_t* upper, const uint16_t* lower, int64_t count, float* to) {
  PLIMSOLL_FOR_LANES(i, partial, count) {
    const Words high = __builtin_convertvector(read_halves(upper + i, partial), Words);
    const Words low = __builtin_convertvector(read_halves(lower + i, partial), Words);
    store(to + i, joined<Floats>(high, low));
  }
}
PLIMSOLL_INLINE void split_halves(uint16_t* upper, uint16_t* lower, int64_t count, const float* from) {
  PLIMSOLL_FOR_LANES(i, partial, count) {
    const Floats x = load(from + i);
    write_halves(upper + i, upper_half<Floats>(x), partial);
    write_halves(lower + i, lower_half<Floats>(x), partial);
  }
}

}  // namespace

// Each function is compiled for every instruction set; the inlined code above takes on its target.
#define PLIMSOLL_SMALL(name, unpacker, packer, Small, squares)                                                      \
  PLIMSOLL_VARIANTS(                                                                                                \
      void, unpack_##name, (const Values& from, int64_t begin, int64_t count, float* to), (from, begin, count, to), \
      { unpacker<Small, squares>(static_cast<const uint8_t*>(from.data), from.scales, begin, count, to); })         \
  PLIMSOLL_VARIANTS(void, pack_##name,                                                                              \
                    (const Values& to, int64_t begin, int64_t count, const float* from, const Drawn& drawn),        \
                    (to, begin, count, from, drawn),                                                                \
                    { packer<Small, squares>(static_cast<uint8_t*>(to.data), to.scales, begin, count, from, drawn); })
PLIMSOLL_SMALL(e4m3, unpack8, pack8, E4M3, false)
PLIMSOLL_SMALL(e5m3, unpack8, pack8, E5M3, true)
PLIMSOLL_SMALL(e2m1, unpack4, pack4, E2M1, false)
PLIMSOLL_SMALL(e3m1, unpack4, pack4, E3M1, true)
#undef PLIMSOLL_SMALL

#define PLIMSOLL_HALVES(name, T)                                                                                     \
  PLIMSOLL_VARIANTS(void, unpack_##name, (const void* from, int64_t begin, int64_t count, float* to),                \
                    (from, begin, count, to), { widen(static_cast<const T*>(from) + begin, count, to); })            \
  PLIMSOLL_VARIANTS(                                                                                                 \
      void, pack_##name, (void* to, int64_t begin, int64_t count, const float* from, const Rounding& rounding),      \
      (to, begin, count, from, rounding), { narrow(static_cast<T*>(to) + begin, begin, count, from, rounding); })    \
  PLIMSOLL_VARIANTS(void, unpack_compensated_##name, (const Weights& from, int64_t begin, int64_t count, float* to), \
                    (from, begin, count, to), {                                                                      \
                      add_compensation(static_cast<const T*>(from.data) + begin,                                     \
                                       static_cast<const T*>(from.companion) + begin, count, to);                    \
                    })                                                                                               \
  PLIMSOLL_VARIANTS(                                                                                                 \
      void, pack_compensated_##name, (const Weights& to, int64_t begin, int64_t count, const float* from),           \
      (to, begin, count, from),                                                                                      \
      { split_compensation(static_cast<T*>(to.data) + begin, static_cast<T*>(to.companion) + begin, count, from); })
PLIMSOLL_HALVES(bfloat16, BFloat16)
PLIMSOLL_HALVES(float16, Half)
#undef PLIMSOLL_HALVES

PLIMSOLL_VARIANTS(void, unpack_remainder, (const uint16_t* upper, const uint16_t* lower, int64_t count, float* to),
                  (upper, lower, count, to), { join_halves(upper, lower, count, to); })
PLIMSOLL_VARIANTS(void, pack_remainder, (uint16_t * upper, uint16_t* lower, int64_t count, const float* from),
                  (upper, lower, count, from), { split_halves(upper, lower, count, from); })

void unpack(const Values& values, int64_t begin, int64_t count, float* to) {
  switch (values.format) {
    case Format::bits8:
      return values.squares ? unpack_e5m3(values, begin, count, to) : unpack_e4m3(values, begin, count, to);
    case Format::bits4:
      return values.squares ? unpack_e3m1(values, begin, count, to) : unpack_e2m1(values, begin, count, to);
    case Format::bfloat16:
      return unpack_bfloat16(values.data, begin, count, to);
    case Format::float16:
      return unpack_float16(values.data, begin, count, to);
    case Format::float64: {
      const auto* from = static_cast<const double*>(values.data) + begin;
      for (int64_t i = 0; i < kChunk; ++i) to[i] = i < count ? static_cast<float>(from[i]) : 0.0f;
      return;
    }
    case Format::float32:
      break;
  }
  throw InternalError("unpack: float32 is worked on in place");
}

PLIMSOLL_VARIANTS(void, draw_for_chunk, (const Draw& draw, int64_t begin, Drawn& to), (draw, begin, to),
                  { draw_words(draw, begin, to); })
void draw_chunk(const Draw& draw, int64_t begin, Drawn& to) {
  draw_for_chunk(draw, begin, to);
}

void pack(const Values& values, int64_t begin, int64_t count, const float* from, const Rounding& rounding) {
  const bool always = values.format == Format::bits8 || values.format == Format::bits4;
  if ((always || rounding.stochastic) && rounding.drawn == nullptr) {
    Drawn drawn;
    draw_chunk(rounding.draw, begin, drawn);
    return pack(values, begin, count, from, Rounding{rounding.stochastic, rounding.draw, &drawn});
  }
  switch (values.format) {
    case Format::bits8:
      return values.squares ? pack_e5m3(values, begin, count, from, *rounding.drawn)
                            : pack_e4m3(values, begin, count, from, *rounding.drawn);
    case Format::bits4:
      return values.squares ? pack_e3m1(values, begin, count, from, *rounding.drawn)
                            : pack_e2m1(values, begin, count, from, *rounding.drawn);
    case Format::bfloat16:
      return pack_bfloat16(values.data, begin, count, from, rounding);
    case Format::float16:
      return pack_float16(values.data, begin, count, from, rounding);
    case Format::float64: {
      auto* to = static_cast<double*>(values.data) + begin;
      for (int64_t i = 0; i < count; ++i) to[i] = from[i];
      return;
    }
    case Format::float32:
      break;
  }
  throw InternalError("pack: float32 is worked on in place");
}

void unpack(const Weights& weights, int64_t begin, int64_t count, float* to) {
  const bool half = weights.format == Format::float16;
  if (weights.kind == Companion::compensation)
    return half ? unpack_compensated_float16(weights, begin, count, to)
                : unpack_compensated_bfloat16(weights, begin, count, to);
  if (weights.kind == Companion::remainder)
    return unpack_remainder(static_cast<const uint16_t*>(weights.data) + begin,
                            static_cast<const uint16_t*>(weights.companion) + begin, count, to);
  check(weights.kind == Companion::none, "unpack: a master is worked on in place");
  unpack(Values{weights.data, nullptr, weights.format, false}, begin, count, to);
}

void pack(const Weights& weights, int64_t begin, int64_t count, const float* from, const Rounding& rounding) {
  if (weights.kind == Companion::compensation)
    return weights.format == Format::float16 ? pack_compensated_float16(weights, begin, count, from)
                                             : pack_compensated_bfloat16(weights, begin, count, from);
  if (weights.kind == Companion::remainder)
    return pack_remainder(static_cast<uint16_t*>(weights.data) + begin,
                          static_cast<uint16_t*>(weights.companion) + begin, count, from);
  pack(Values{weights.data, nullptr, weights.format, false}, begin, count, from, rounding);
}

}  // namespace plimsoll::ops
