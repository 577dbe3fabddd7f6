// Declares the number of rounds of random tests: fewer with sanitizers, which make each round ten to twenty times
// slower.
#pragma once

#include <algorithm>

namespace plimsoll::testing {

#if defined(__SANITIZE_ADDRESS__)
inline constexpr bool kSanitized = true;
#else
inline constexpr bool kSanitized = false;
#endif

/// Returns `count`, or a tenth of it (at least 1) if the tests are compiled with sanitizers.
constexpr int rounds(int count) {
  return kSanitized ? std::max(1, count / 10) : count;
}

}  // namespace plimsoll::testing
