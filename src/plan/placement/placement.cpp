#include "plimsoll/placement.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <memory>
#include <numeric>

#include "plan/placement/placement_first_fit.h"
#include "plan/placement/placement_kernel.h"
#include "plan/placement/placement_tree.h"
#include "plimsoll/error.h"

namespace plimsoll {
namespace {

using placing::Kernel;
using placing::KernelPlacement;
using placing::TreeSearch;

/// Chunks of Shelves that are examined to place one box among a thousand, approximately.
constexpr int64_t kWorkPerPlacement = 25;

/// A search that lowers the placement of one kernel towards `goal`.
class Improver {
 public:
  /// `must_fit`: only the goal counts; otherwise every lower height is a gain.
  Improver(const Kernel& kernel, int64_t goal, bool must_fit, const TreeSearchParameters& parameters,
           KernelPlacement* best)
      : kernel_(kernel), goal_(goal), must_fit_(must_fit), parameters_(parameters), best_(best) {}

  void run(int64_t work) {
    if (!TreeSearch::can_search(kernel_, parameters_)) {
      placing::promote(kernel_, goal_, best_, &work, parameters_.seed);
      return;
    }
    TreeSearch tree(kernel_, parameters_);
    if (tree.work_per_descent() > work / 4) {
      placing::promote(kernel_, goal_, best_, &work, parameters_.seed);
      return;
    }
    // The tree search rarely needs help; a short promotion is for problems that it cannot finish.
    int64_t first_share = std::min(work / 8, parameters_.promotion_placements * kWorkPerPlacement);
    work -= first_share;
    placing::promote(kernel_, goal_, best_, &first_share, parameters_.seed);
    if (best_->height <= goal_) return;

    int64_t share = must_fit_ ? work * 3 / 4 : work / 3;
    work -= share;
    if (lower_to(goal_, &tree, &share)) return;
    work += share;
    // The goal was not reached: halve the distance as often as the work allows.
    int64_t too_low = goal_;
    while (work > 0 && best_->height - too_low > std::max<int64_t>(1, best_->height >> 12)) {
      const int64_t middle = too_low + (best_->height - too_low) / 2;
      share = std::max(work / 4, std::min(work, tree.work_per_descent()));
      work -= share;
      if (!lower_to(middle, &tree, &share)) too_low = middle;
      work += share;
    }
  }

 private:
  bool lower_to(int64_t height, TreeSearch* tree, int64_t* work) {
    if (tree->search(height, work) != TreeSearch::Outcome::found) return false;
    *best_ = tree->placement();
    return true;
  }

  const Kernel& kernel_;
  int64_t goal_;
  bool must_fit_;
  const TreeSearchParameters& parameters_;
  KernelPlacement* best_;
};

}  // namespace

Placement place(const std::vector<PlacementItem>& items, const PlacementOptions& options) {
  const std::vector<int64_t> sizes = placing::aligned_sizes(items, options.alignment);
  placing::Reduction reduced = placing::reduce(items, sizes);
  const std::vector<Kernel>& kernels = reduced.kernels;

  // A kernel need not be lower than the lower bound of the whole problem.
  int64_t goal = std::max(reduced.lower_bound, options.capacity / options.alignment);
  const bool must_fit = options.capacity > 0 && options.capacity / options.alignment >= reduced.lower_bound;
  std::vector<KernelPlacement> placed(kernels.size());
  int64_t greedy_work = 0;
  for (size_t k = 0; k < kernels.size(); ++k) {
    placed[k] = placing::best_first_fit(kernels[k], goal - kernels[k].base, &greedy_work);
  }

  const auto top = [&](size_t k) { return kernels[k].base + placed[k].height; };
  std::vector<size_t> high;
  for (size_t k = 0; k < kernels.size(); ++k) {
    if (top(k) > goal) high.push_back(k);
  }
  std::stable_sort(high.begin(), high.end(), [&](size_t x, size_t y) { return top(x) > top(y); });
  int64_t work_left = std::clamp<int64_t>(options.effort, 0, int64_t{1} << 50) * kWorkPerPlacement;
  for (size_t k = 0; k < high.size(); ++k) {
    const size_t kernel = high[k];
    // Without a capacity an excess of less than 1 % gets only part of the effort, and one of at most 0.1 % none.
    const int64_t excess = top(kernel) - goal;
    if (excess <= (must_fit ? 0 : goal / 1000)) continue;
    int64_t share = work_left / static_cast<int64_t>(high.size() - k);
    if (!must_fit) share = std::min<int64_t>(share, static_cast<int64_t>(100.0 * excess / goal * share));
    Improver(kernels[kernel], goal - kernels[kernel].base, must_fit, options.tree_search, &placed[kernel]).run(share);
    work_left -= share;
    if (!must_fit) goal = std::max(goal, top(kernel));
  }

  Placement result;
  result.lower_bound = reduced.lower_bound * options.alignment;
  int64_t height = reduced.height;
  for (size_t k = 0; k < kernels.size(); ++k) {
    height = std::max(height, top(k));
    for (size_t b = 0; b < kernels[k].items.size(); ++b) {
      reduced.offsets[kernels[k].items[b]] = kernels[k].base + placed[k].offsets[b];
    }
  }
  result.height = height * options.alignment;
  result.offsets = std::move(reduced.offsets);
  for (int64_t& offset : result.offsets) offset *= options.alignment;
  return result;
}

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
