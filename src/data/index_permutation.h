// Declares a permutation of the integers below N that is computed number by number.
#pragma once

#include <array>
#include <cstdint>

namespace plimsoll {

/// A bijection of [0, count) onto itself, in constant memory for any count: a Feistel network of 8 half rounds over the
/// smallest power of two that is not below `count`. A result at or above `count` goes through the network again, until
/// one is below (cycle walking; Black and Rogaway, "Ciphers with arbitrary finite domains", 2002). A number passes the
/// network fewer than 2 times on average. The result depends on (count, key) alone, on every machine.
class IndexPermutation {
 public:
  /// `count` is 1 to 2^62.
  IndexPermutation(int64_t count, uint64_t key);

  /// Returns the image of `index`, which is in [0, count).
  int64_t operator()(int64_t index) const;

 private:
  uint64_t once(uint64_t number) const;

  static constexpr int kHalfRounds = 8;
  uint64_t count_;
  int low_bits_ = 0;  // bits of the network's two parts; their sum is the domain's bits
  int high_bits_ = 0;
  std::array<uint64_t, kHalfRounds> keys_;
};

}  // namespace plimsoll
