#include "plan/graph/iteration.h"

#include <algorithm>
#include <numeric>
#include <set>

namespace plimsoll {

Walk walk_of(const std::vector<int64_t>& sizes, const std::vector<int64_t>& strides, const std::vector<int>& order) {
  Walk walk;
  for (const int d : order) {
    if (sizes[d] == 1) continue;
    if (!walk.sizes.empty() && walk.strides.back() == strides[d] * sizes[d]) {
      walk.sizes.back() *= sizes[d];
      walk.strides.back() = strides[d];
    } else {
      walk.sizes.push_back(sizes[d]);
      walk.strides.push_back(strides[d]);
    }
  }
  return walk;
}

std::optional<std::vector<int64_t>> broadcast_strides(const View& view, const std::vector<int64_t>& sizes) {
  if (view.sizes.size() > sizes.size()) return std::nullopt;
  std::vector<int64_t> strides(sizes.size(), 0);
  const size_t missing = sizes.size() - view.sizes.size();
  for (size_t d = 0; d < view.sizes.size(); ++d) {
    if (view.sizes[d] == sizes[missing + d])
      strides[missing + d] = view.strides[d];
    else if (view.sizes[d] != 1)
      return std::nullopt;
  }
  return strides;
}

std::vector<int> memory_order(const View& view) {
  std::vector<int> order(view.sizes.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](int a, int b) { return view.strides[a] > view.strides[b]; });
  return order;
}

std::optional<std::vector<int64_t>> common_sizes(const std::vector<Walk>& walks, int64_t elements) {
  // Numbers of elements within one step of each dimension: boundaries that the loop must have.
  std::set<int64_t> boundaries = {1, elements};
  for (const Walk& walk : walks) {
    int64_t within = 1;
    for (size_t d = walk.sizes.size(); d-- > 0;) boundaries.insert(within *= walk.sizes[d]);
  }
  std::vector<int64_t> sizes;
  int64_t last = 1;
  for (const int64_t boundary : boundaries) {
    if (boundary % last != 0) return std::nullopt;
    if (boundary > last) sizes.insert(sizes.begin(), boundary / last);
    last = boundary;
  }
  return sizes;
}

std::vector<int64_t> strides_over(const Walk& walk, const std::vector<int64_t>& sizes) {
  std::vector<int64_t> strides(sizes.size(), 0);
  size_t d = walk.sizes.size();
  int64_t stride = 0, left = 1;  // of the walk's current dimension
  for (size_t i = sizes.size(); i-- > 0;) {
    if (left == 1 && d > 0) {
      stride = walk.strides[--d];
      left = walk.sizes[d];
    }
    strides[i] = stride;
    stride *= sizes[i];
    left /= sizes[i];
  }
  return strides;
}

}  // namespace plimsoll
