#include "data/slices/slice_split.h"

#include <algorithm>
#include <cmath>

namespace plimsoll {

std::vector<SliceUse> split_slices(int64_t count, const SliceParts& parts) {
  std::vector<SliceUse> use(static_cast<size_t>(count), SliceUse::train);
  const auto slices = static_cast<double>(count);
  const auto blocks_of = [&](double share) {
    if (share <= 0 || count == 0) return int64_t{0};
    return std::max<int64_t>(1, std::llround(share * slices / static_cast<double>(parts.block)));
  };
  const int64_t tests = blocks_of(parts.test), blocks = blocks_of(parts.validation) + tests;
  const auto each_block = [&](const auto& act) {
    for (int64_t i = 0; i < blocks; ++i) {
      const double middle = (static_cast<double>(i) + 0.5) * slices / static_cast<double>(blocks);
      const int64_t begin =
          std::clamp<int64_t>(static_cast<int64_t>(std::floor(middle - static_cast<double>(parts.block) / 2)), 0,
                              std::max<int64_t>(0, count - parts.block));
      // The first i blocks have as many test blocks as the test share, rounded down.
      const bool test = (i + 1) * tests / blocks > i * tests / blocks;
      act(begin, std::min(count, begin + parts.block), test ? SliceUse::test : SliceUse::validation);
    }
  };
  each_block([&](int64_t begin, int64_t end, SliceUse) {
    for (int64_t at = std::max<int64_t>(0, begin - parts.gap); at < std::min(count, end + parts.gap); ++at)
      use[static_cast<size_t>(at)] = SliceUse::unused;
  });
  each_block([&](int64_t begin, int64_t end, SliceUse kind) {
    for (int64_t at = begin; at < end; ++at) use[static_cast<size_t>(at)] = kind;
  });
  return use;
}

}  // namespace plimsoll
