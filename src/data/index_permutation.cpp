#include "data/index_permutation.h"

#include <bit>

#include "base/hash.h"
#include "plimsoll/error.h"

namespace plimsoll {

IndexPermutation::IndexPermutation(int64_t count, uint64_t key) : count_(static_cast<uint64_t>(count)) {
  check(count >= 1 && count <= int64_t{1} << 62, "a permutation is of 1 to 2^62 numbers");
  const int bits = std::bit_width(count_ - 1);
  low_bits_ = bits / 2;
  high_bits_ = bits - low_bits_;
  SplitMix64 random(key);
  for (uint64_t& each : keys_) each = random.next();
}

uint64_t IndexPermutation::once(uint64_t number) const {
  const uint64_t low_mask = (uint64_t{1} << low_bits_) - 1, high_mask = (uint64_t{1} << high_bits_) - 1;
  uint64_t low = number & low_mask, high = number >> low_bits_;
  // Each half round changes one part by a function of the other part, so it can be undone for any function.
  for (int i = 0; i < kHalfRounds; i += 2) {
    high ^= mix64(low + keys_[static_cast<size_t>(i)]) & high_mask;
    low ^= mix64(high + keys_[static_cast<size_t>(i) + 1]) & low_mask;
  }
  return high << low_bits_ | low;
}

int64_t IndexPermutation::operator()(int64_t index) const {
  check(index >= 0 && static_cast<uint64_t>(index) < count_, "an index of a permutation is below its count");
  uint64_t number = once(static_cast<uint64_t>(index));
  while (number >= count_) number = once(number);
  return static_cast<int64_t>(number);
}

}  // namespace plimsoll
