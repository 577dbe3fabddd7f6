#include "data/slice_split.h"

#include <algorithm>
#include <cmath>

namespace plimsoll {

std::vector<SliceUse> split_slices(int64_t count, double fraction, int64_t block, int64_t gap) {
  std::vector<SliceUse> use(static_cast<size_t>(count), SliceUse::train);
  if (fraction <= 0 || count == 0) return use;
  const auto slices = static_cast<double>(count);
  const int64_t blocks = std::max<int64_t>(1, std::llround(fraction * slices / static_cast<double>(block)));
  const auto each_slice = [&](const auto& act) {
    for (int64_t i = 0; i < blocks; ++i) {
      const double middle = (static_cast<double>(i) + 0.5) * slices / static_cast<double>(blocks);
      const int64_t begin =
          std::clamp<int64_t>(static_cast<int64_t>(std::floor(middle - static_cast<double>(block) / 2)), 0,
                              std::max<int64_t>(0, count - block));
      act(begin, std::min(count, begin + block));
    }
  };
  each_slice([&](int64_t begin, int64_t end) {
    for (int64_t at = std::max<int64_t>(0, begin - gap); at < std::min(count, end + gap); ++at)
      use[static_cast<size_t>(at)] = SliceUse::unused;
  });
  each_slice([&](int64_t begin, int64_t end) {
    for (int64_t at = begin; at < end; ++at) use[static_cast<size_t>(at)] = SliceUse::held_out;
  });
  return use;
}

}  // namespace plimsoll
