// Declares the ranges that several keys share, and proposes numbers if one number must divide another.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "job/keys/values.h"
#include "models/config_checks.h"

namespace plimsoll::job {

constexpr NumberRange kPositive{.min = 0, .min_open = true};
constexpr NumberRange kPositiveOrNone{.min = 0, .none = true};
constexpr NumberRange kBelowOne{.min = 0, .max = 1, .max_open = true};
constexpr NumberRange kBelowOneOrNone{.min = 0, .max = 1, .max_open = true, .none = true};
constexpr NumberRange kSmall{.min = 0, .min_open = true, .max = 1, .max_open = true};

constexpr IntegerRange kWidth{1, int64_t{1} << 16};     ///< features of a token or channels of a map
constexpr IntegerRange kDepth{0, 1024};                 ///< blocks of a part that may be left out
constexpr IntegerRange kHeads{1, model::kMaxHeads};     ///< attention heads
constexpr IntegerRange kPixels{1, int64_t{1} << 12};    ///< height and width of a frame or of a patch
constexpr NumberRange kWeight{.min = 0, .none = true};  ///< factor of one term of a loss

/// Upper bound of estimates of bytes and tokens in floating point: 2^62, so that int64_t can count them.
constexpr double kCountable = 4.6e18;

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
