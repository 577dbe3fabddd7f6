// Computes random bits as a function of a key and an element index: the same for any number of threads, in any order.
//
// Threefry4x32 with 13 rounds (Salmon, Moraes, Dror and Shaw 2011, "Parallel random numbers: as easy as 1, 2, 3"). It
// transforms a counter by additions, rotations and exclusive ors, which every vector unit has. It passes BigCrush.
#pragma once

#include <cstdint>

#include "base/hash.h"
#include "ops/host_device.h"

namespace plimsoll::ops {

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

/// Returns the sixteen random bits of element `index`. The kernels draw the bits of 128 elements together
/// (formats_cpu.cpp).
PLIMSOLL_HOST_DEVICE uint32_t random_bits(const Draw& draw, int64_t index) {
  const int64_t element = draw.first_element + index;
  const int64_t block = element / kDrawnAtATime, lane = element % 16, vector = element % kDrawnAtATime / 16;
  const auto counter = static_cast<uint64_t>(block * 16 + lane);
  uint32_t words[1][4] = {{static_cast<uint32_t>(counter), static_cast<uint32_t>(counter >> 32), 0, 0}};
  threefry<uint32_t, 1>({draw.key[0], draw.key[1], draw.stream, 0}, words);
  return (words[0][vector / 2] >> (vector % 2 * 16)) & 0xffffu;
}

}  // namespace plimsoll::ops
