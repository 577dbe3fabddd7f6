#include "plan/placement/placement_kernel.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <numeric>
#include <span>

#include "plimsoll/error.h"

namespace plimsoll::placing {
namespace {

/// A list of items that may be connected in time, sorted by lower, on top of `base` units.
struct Group {
  std::vector<int32_t> items;
  int64_t base = 0;
};

class Reducer {
 public:
  Reducer(const std::vector<PlacementItem>& items, const std::vector<int64_t>& sizes) : items_(items), sizes_(sizes) {}

  Reduction run() {
    result_.offsets.assign(items_.size(), 0);
    Group all;
    for (size_t i = 0; i < items_.size(); ++i) {
      if (sizes_[i] > 0 && items_[i].lower < items_[i].upper) all.items.push_back(static_cast<int32_t>(i));
    }
    std::stable_sort(all.items.begin(), all.items.end(),
                     [&](int32_t x, int32_t y) { return items_[x].lower < items_[y].lower; });
    // Deeply nested lifetimes peel one box a round. After this many comparisons the rest is left to the heuristics,
    // which do as well.
    int64_t looks_left = 64 * static_cast<int64_t>(all.items.size());
    std::vector<Group> open;
    split(all, &open);
    while (!open.empty()) {
      const Group group = std::move(open.back());
      open.pop_back();
      looks_left -= static_cast<int64_t>(group.items.size());
      Group rest = looks_left >= 0 ? peel(group) : group;
      if (rest.items.size() == group.items.size()) {
        result_.kernels.push_back(make_kernel(rest));
        result_.lower_bound = std::max(result_.lower_bound, rest.base + result_.kernels.back().lower_bound);
      } else {
        split(rest, &open);
      }
    }
    result_.lower_bound = std::max(result_.lower_bound, result_.height);
    return std::move(result_);
  }

 private:
  void split(const Group& group, std::vector<Group>* out) const {
    int64_t end = 0;
    bool started = false;
    for (const int32_t i : group.items) {
      if (!started || items_[i].lower >= end) {
        out->push_back({{}, group.base});
        end = items_[i].upper;
        started = true;
      }
      out->back().items.push_back(i);
      end = std::max(end, items_[i].upper);
    }
  }

  /// Places the boxes that are live together with every other box of the group; returns the rest, which is above them.
  Group peel(const Group& group) {
    int64_t first_death = std::numeric_limits<int64_t>::max();
    int64_t last_birth = std::numeric_limits<int64_t>::min();
    for (const int32_t i : group.items) {
      first_death = std::min(first_death, items_[i].upper);
      last_birth = std::max(last_birth, items_[i].lower);
    }
    Group rest{{}, group.base};
    for (const int32_t i : group.items) {
      if (items_[i].lower < first_death && items_[i].upper > last_birth) {
        result_.offsets[i] = rest.base;
        rest.base += sizes_[i];
      } else {
        rest.items.push_back(i);
      }
    }
    result_.height = std::max(result_.height, rest.base);
    return rest;
  }

  Kernel make_kernel(const Group& group) const {
    Kernel kernel;
    kernel.items = group.items;
    kernel.base = group.base;
    kernel.boxes.resize(group.items.size());
    std::vector<int32_t> by_death(group.items.size());
    std::iota(by_death.begin(), by_death.end(), 0);
    std::stable_sort(by_death.begin(), by_death.end(),
                     [&](int32_t x, int32_t y) { return items_[group.items[x]].upper < items_[group.items[y]].upper; });
    // A set of live boxes is largest just before the first death after a birth: a section ends there.
    int32_t section = 0;
    bool died = false;
    size_t dead = 0;
    const auto bury_until = [&](int64_t time) {
      for (; dead < by_death.size() && items_[group.items[by_death[dead]]].upper <= time; ++dead) {
        kernel.boxes[by_death[dead]].last = section + 1;
        died = true;
      }
    };
    for (size_t k = 0; k < group.items.size(); ++k) {
      bury_until(items_[group.items[k]].lower);
      if (died) ++section;
      died = false;
      kernel.boxes[k].first = section;
      kernel.boxes[k].size = sizes_[group.items[k]];
    }
    bury_until(std::numeric_limits<int64_t>::max());

    kernel.load.assign(static_cast<size_t>(section) + 2, 0);
    for (const Box& box : kernel.boxes) {
      kernel.load[box.first] += box.size;
      kernel.load[box.last] -= box.size;
    }
    std::partial_sum(kernel.load.begin(), kernel.load.end(), kernel.load.begin());
    kernel.load.pop_back();
    kernel.lower_bound = *std::max_element(kernel.load.begin(), kernel.load.end());
    return kernel;
  }

  const std::vector<PlacementItem>& items_;
  const std::vector<int64_t>& sizes_;
  Reduction result_;
};

}  // namespace

Reduction reduce(const std::vector<PlacementItem>& items, const std::vector<int64_t>& sizes) {
  return Reducer(items, sizes).run();
}

std::vector<int64_t> aligned_sizes(const std::vector<PlacementItem>& items, int64_t alignment) {
  constexpr int64_t limit = int64_t{1} << 62;
  if (alignment < 1 || alignment > limit) {
    throw UserError(fmt::format("an alignment of {} bytes cannot be: 1 to 2^62 is allowed", alignment));
  }
  if (items.size() > static_cast<size_t>(std::numeric_limits<int32_t>::max())) {
    throw UserError(fmt::format("{} buffers are too many to place: up to 2^31 - 1 are allowed", items.size()));
  }
  std::vector<int64_t> sizes;
  sizes.reserve(items.size());
  const int64_t units_allowed = limit / alignment;
  int64_t units = 0;
  for (size_t i = 0; i < items.size(); ++i) {
    const int64_t size = items[i].size;
    if (size < 0) throw UserError(fmt::format("buffer {} has a size of {} bytes: 0 or more is allowed", i, size));
    sizes.push_back(size / alignment + (size % alignment != 0));
    if (sizes.back() > units_allowed - units) {
      throw UserError(
          fmt::format("the sizes of buffers 0 to {} sum to more than 2^62 bytes: no arena can hold them", i));
    }
    units += sizes.back();
  }
  return sizes;
}

}  // namespace plimsoll::placing
