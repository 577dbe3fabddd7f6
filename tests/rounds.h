// How long random tests go on: where sanitizers make each round ten to twenty times as long, for fewer of them.
#pragma once

#include <algorithm>

namespace plimsoll::testing {

#if defined(__SANITIZE_ADDRESS__)
inline constexpr bool kSanitized = true;
#else
inline constexpr bool kSanitized = false;
#endif

/// `count`, or a tenth of it (1 at least) where the tests are compiled with sanitizers.
constexpr int rounds(int count) {
  return kSanitized ? std::max(1, count / 10) : count;
}

}  // namespace plimsoll::testing
