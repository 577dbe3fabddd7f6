// Proposes numbers if one number must divide another.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace plimsoll::job {

/// Returns the nearest divisors of `of` below and above `number` for which `fits(divisor)` holds: at most two. Takes
/// time in proportion to `of`.
template <typename Fits>
std::vector<int64_t> near_divisors(int64_t number, int64_t of, Fits&& fits) {
  std::vector<int64_t> result;
  const auto good = [&](int64_t divisor) { return of % divisor == 0 && fits(divisor); };
  for (int64_t below = (number < of ? number : of + 1) - 1; below >= 1; --below)
    if (good(below)) {
      result.push_back(below);
      break;
    }
  for (int64_t above = number + 1; above <= of; ++above)
    if (good(above)) {
      result.push_back(above);
      break;
    }
  return result;
}

/// Returns " (for example 4 or 8)", or "" if there is no number to propose.
std::string for_example(const std::vector<int64_t>& numbers);

}  // namespace plimsoll::job
