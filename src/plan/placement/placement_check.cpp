// Implements the checks of placement by the shortest code: the lower bound of a problem, and the soundness of a
// placement.
//
// It shares no code with the solver, so that a mistake there is not repeated here.
#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "plimsoll/error.h"
#include "plimsoll/placement.h"

namespace plimsoll {
namespace {

__int128 rounded_up(int64_t size, int64_t alignment) {
  return (static_cast<__int128>(size) + alignment - 1) / alignment * alignment;
}

bool takes_room(const PlacementItem& item) {
  return item.size > 0 && item.lower < item.upper;
}

}  // namespace

int64_t live_bytes_bound(const std::vector<PlacementItem>& items, int64_t alignment) {
  if (alignment < 1)
    throw UserError(fmt::format("an alignment of {} bytes cannot be: 1 or more is allowed", alignment));
  std::map<int64_t, __int128> change;
  for (size_t i = 0; i < items.size(); ++i) {
    if (items[i].size < 0) {
      throw UserError(fmt::format("buffer {} has a size of {} bytes: 0 or more is allowed", i, items[i].size));
    }
    if (!takes_room(items[i])) continue;
    change[items[i].lower] += rounded_up(items[i].size, alignment);
    change[items[i].upper] -= rounded_up(items[i].size, alignment);
  }
  __int128 live = 0;
  __int128 maximum = 0;
  for (const auto& [time, bytes] : change) {
    live += bytes;
    maximum = std::max(maximum, live);
  }
  if (maximum > (__int128{1} << 62)) throw UserError("more than 2^62 bytes are live together: no arena can hold them");
  return static_cast<int64_t>(maximum);
}

std::string check_placement(const std::vector<PlacementItem>& items, const Placement& placement, int64_t alignment) {
  const std::vector<int64_t>& offsets = placement.offsets;
  if (alignment < 1) return fmt::format("an alignment of {} bytes cannot be", alignment);
  if (offsets.size() != items.size()) {
    return fmt::format("{} offsets for {} buffers", offsets.size(), items.size());
  }
  std::vector<size_t> by_birth;
  for (size_t i = 0; i < items.size(); ++i) {
    if (offsets[i] < 0) return fmt::format("buffer {} lies at offset {}, below 0", i, offsets[i]);
    if (offsets[i] % alignment != 0) {
      return fmt::format("buffer {} lies at offset {}, which is not a multiple of {}", i, offsets[i], alignment);
    }
    if (!takes_room(items[i])) continue;
    if (offsets[i] + static_cast<__int128>(items[i].size) > placement.height) {
      return fmt::format("buffer {} at offset {} with {} bytes ends above the arena's height of {}", i, offsets[i],
                         items[i].size, placement.height);
    }
    by_birth.push_back(i);
  }
  std::stable_sort(by_birth.begin(), by_birth.end(),
                   [&](size_t x, size_t y) { return items[x].lower < items[y].lower; });
  for (size_t x = 0; x < by_birth.size(); ++x) {
    const size_t i = by_birth[x];
    for (size_t y = x + 1; y < by_birth.size() && items[by_birth[y]].lower < items[i].upper; ++y) {
      const size_t j = by_birth[y];  // born while i is live
      if (offsets[i] < offsets[j] + items[j].size && offsets[j] < offsets[i] + items[i].size) {
        return fmt::format("buffers {} and {} are live together and overlap: bytes [{}, {}) and [{}, {})",
                           std::min(i, j), std::max(i, j), offsets[std::min(i, j)],
                           offsets[std::min(i, j)] + items[std::min(i, j)].size, offsets[std::max(i, j)],
                           offsets[std::max(i, j)] + items[std::max(i, j)].size);
      }
    }
  }
  return "";
}

}  // namespace plimsoll
