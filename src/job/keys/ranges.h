// Declares the ranges that several keys share.
#pragma once

#include <cstdint>

#include "job/values/values.h"
#include "models/size_limits.h"

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

}  // namespace plimsoll::job
