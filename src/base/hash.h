// Declares hashes and random bits that are the same on every machine and with every standard library, and a fast
// 64-bit hash of bytes (XXH3).
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string_view>

namespace plimsoll {

/// Returns the finalizer of SplitMix64 (Steele, Lea, Flood, "Fast splittable pseudorandom number generators", 2014): a
/// bijection that spreads every bit of `x` over the whole result.
constexpr uint64_t mix64(uint64_t x) {
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
  return x ^ (x >> 31);
}

/// Returns FNV-1a, 64 bits: it distinguishes inputs, but does not guard against an adversary. `seed` chains calls.
constexpr uint64_t hash_bytes(std::string_view bytes, uint64_t seed = 0xcbf29ce484222325u) {
  for (char c : bytes) seed = (seed ^ static_cast<unsigned char>(c)) * 0x100000001b3u;
  return seed;
}

/// The random number generator SplitMix64, from the same paper.
class SplitMix64 {
 public:
  constexpr explicit SplitMix64(uint64_t seed) : state_(seed) {}

  constexpr uint64_t next() { return mix64(state_ += 0x9e3779b97f4a7c15u); }

  /// Returns a uniform number in [0, bound), without the bias of a plain remainder; `bound` is at least 1.
  uint64_t below(uint64_t bound) {
    const uint64_t uneven = (0 - bound) % bound;  // 2^64 mod bound: the number of draws to reject
    uint64_t draw = next();
    while (draw < uneven) draw = next();
    return draw % bound;
  }

 private:
  uint64_t state_;
};

/// Returns the first number of SplitMix64 from `seed`. Seeds that differ in one bit give numbers that differ in half of
/// their bits. Kernels call it on GPUs: nvcc compiles constexpr functions for both.
constexpr uint64_t splitmix64(uint64_t seed) {
  return SplitMix64(seed).next();
}

/// Returns XXH3, 64 bits, seed 0: the same on every machine. It finds flipped bits in files of many gigabytes at the
/// speed of memory, and does not guard against an adversary.
uint64_t content_hash(std::span<const std::byte> bytes);

/// A hasher of bytes that come in pieces. The result is content_hash() of all bytes, wherever the pieces end.
class ContentHasher {
 public:
  ContentHasher();
  void update(std::span<const std::byte> bytes);
  /// Returns the hash of all bytes so far; more may follow.
  uint64_t digest() const;
  void reset();

 private:
  struct Free {
    void operator()(void* state) const;
  };
  std::unique_ptr<void, Free> state_;
};

}  // namespace plimsoll
