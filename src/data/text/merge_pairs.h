// Merges neighboring parts of a text in the order of their ranks: byte-pair encoding (Sennrich et al. 2016).
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <queue>
#include <tuple>
#include <vector>

namespace plimsoll {

/// Merges pairs of neighbors among `size` parts, the lowest rank first and the leftmost first among equals, in n log n
/// steps. A part is named by the position at which it begins, and all begin with length 1. `rank(left, middle, end)`
/// returns the rank of the pair of [left, middle) and [middle, end), or nullopt if it is not merged; `merge` is called
/// with the same positions for each pair that is merged. Returns the end of each part that is left, at the position at
/// which it begins; all other elements are 0. `Position` is an unsigned type that holds `size`.
template <typename Position, typename Rank, typename Merge>
std::vector<Position> merge_pairs(Position size, Rank rank, Merge merge) {
  struct Candidate {
    int32_t rank;
    Position left, middle, end;  // stale if a part begins or ends elsewhere by now
    bool operator>(const Candidate& other) const { return std::tie(rank, left) > std::tie(other.rank, other.left); }
  };
  std::vector<Position> ends(size), previous(size);
  std::priority_queue<Candidate, std::vector<Candidate>, std::greater<>> candidates;
  const auto propose = [&](Position left) {
    const Position middle = ends[left];
    if (middle == size) return;
    if (const std::optional<int32_t> found = rank(left, middle, ends[middle]))
      candidates.push({*found, left, middle, ends[middle]});
  };
  for (Position i = 0; i < size; ++i) {
    ends[i] = i + 1;
    previous[i] = i - 1;  // wraps around for the first part, where it is never read
  }
  for (Position i = 0; i < size; ++i) propose(i);
  while (!candidates.empty()) {
    const Candidate best = candidates.top();
    candidates.pop();
    if (ends[best.left] != best.middle || ends[best.middle] != best.end) continue;
    merge(best.left, best.middle, best.end);
    ends[best.left] = best.end;
    ends[best.middle] = 0;
    if (best.end < size) previous[best.end] = best.left;
    propose(best.left);
    if (best.left > 0) propose(previous[best.left]);
  }
  return ends;
}

}  // namespace plimsoll
