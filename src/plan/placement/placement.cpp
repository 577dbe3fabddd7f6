#include "plimsoll/placement.h"

#include <algorithm>
#include <memory>
#include <numeric>

#include "plan/placement/placement_first_fit.h"
#include "plan/placement/placement_kernel.h"
#include "plan/placement/placement_promote.h"
#include "plan/placement/placement_tree.h"

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

}  // namespace plimsoll
