// Random bits as a function of a key and a place: the same for any number of threads, in any order.
//
// Threefry4x32 with 13 rounds (Salmon, Moraes, Dror and Shaw 2011, "Parallel random numbers: as easy as 1, 2, 3"): a
// counter put through additions, rotations and exclusive ors, which every vector unit has. It passes BigCrush.
#pragma once

#include <cstdint>

#include "ops/host_device.h"

namespace plimsoll::ops {

/// What one call of an operator draws by: a key of 64 bits, and which of the call's tensors is rounded.
struct Draw {
  uint32_t key[2] = {0, 0};
  uint32_t stream = 0;
  int64_t first_element = 0;  ///< of a slice: where it begins in the whole tensor; a multiple of 512

  PLIMSOLL_HOST_DEVICE Draw of(uint32_t other_stream) const { return {{key[0], key[1]}, other_stream, first_element}; }
};

/// splitmix64 (Steele, Lea and Flood 2014): numbers that differ in a bit give ones that differ in half of them.
PLIMSOLL_HOST_DEVICE constexpr uint64_t mixed(uint64_t x) {
  x += 0x9e3779b97f4a7c15ull;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ull;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebull;
  return x ^ (x >> 31);
}

PLIMSOLL_HOST_DEVICE constexpr Draw draw_from_key(uint64_t key, int64_t first_element = 0) {
  return {{static_cast<uint32_t>(key), static_cast<uint32_t>(key >> 32)}, 0, first_element};
}

/// What an update draws by: a parameter's seed, and how many updates there were before. `first_element`: of Draw.
PLIMSOLL_HOST_DEVICE constexpr Draw draw_of_step(int64_t seed, double step, int64_t first_element = 0) {
  return draw_from_key(mixed(mixed(static_cast<uint64_t>(seed)) ^ static_cast<uint64_t>(step)), first_element);
}

template <typename Word>
PLIMSOLL_HOST_DEVICE Word rotated(const Word& word, int by) {
  return (word << by) | (word >> (32 - by));
}

/// Turns the four words of each of `many` counters into four random ones. `Word` is uint32_t, or a vector of them. Each
/// step waits for the one before: several counters side by side keep a processor busy.
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

/// The sixteen bits of element `index`, one at a time; the kernels draw 128 together (formats_cpu.cpp).
PLIMSOLL_HOST_DEVICE uint32_t random_bits(const Draw& draw, int64_t index) {
  const int64_t element = draw.first_element + index;
  const int64_t block = element / kDrawnAtATime, lane = element % 16, vector = element % kDrawnAtATime / 16;
  const auto counter = static_cast<uint64_t>(block * 16 + lane);
  uint32_t words[1][4] = {{static_cast<uint32_t>(counter), static_cast<uint32_t>(counter >> 32), 0, 0}};
  threefry<uint32_t, 1>({draw.key[0], draw.key[1], draw.stream, 0}, words);
  return (words[0][vector / 2] >> (vector % 2 * 16)) & 0xffffu;
}

}  // namespace plimsoll::ops
