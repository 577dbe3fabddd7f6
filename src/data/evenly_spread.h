// Declares the choice of some of many numbers, at even distances.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

namespace plimsoll {

/// Returns at most `most` of the numbers in [0, count), ascending and evenly spread, and at least one if `count` is
/// above 0. `most` is below 2^31.
inline std::vector<int64_t> evenly_spread(int64_t count, int64_t most) {
  const int64_t taken = std::min(count, std::max<int64_t>(1, most));
  std::vector<int64_t> numbers;
  numbers.reserve(static_cast<size_t>(std::max<int64_t>(0, taken)));
  for (int64_t i = 0; i < taken; ++i)
    numbers.push_back(i * (count / taken) + i * (count % taken) / taken);  // i * count / taken without overflow
  return numbers;
}

}  // namespace plimsoll
