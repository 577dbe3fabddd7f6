// Declares the thorough stage of placement: a tree search for a placement of a kernel within a given height.
//
// A placement that cannot be improved by lowering one box has every box on the arena's floor or on another box. So
// boxes are stacked from below. Each decision for box b is: place it directly on the boxes stacked below it so far (its
// floor), or higher, on a box that is placed later. Either answer raises lower bounds of offsets:
//
//     floor(b) <= low(b) <= offset(b)      low(b) > floor(b): b waits for a box to be placed on
//
// A section is infeasible if none of its remaining boxes can be next without exceeding the height with all the others
// on top of it. Sections without remaining boxes split the rest into parts that are searched separately. The idea of
// stacking in a canonical order, with inference by sections and splitting, is from M. D. Moffitt, "MiniMalloc: A
// Lightweight Memory Allocator for Hardware-Accelerated Machine Learning", ASPLOS 2023. The two-sided decision, the
// choice of the box and the table of infeasible states are new here.
#pragma once

#include <cstddef>
#include <cstdint>
#include <unordered_set>
#include <vector>

#include "plan/placement/placement_first_fit.h"
#include "plan/placement/placement_kernel.h"
#include "plimsoll/planner.h"

namespace plimsoll::placing {

/// A tree search on one kernel.
class TreeSearch {
 public:
  /// Keeps a reference to `kernel`.
  explicit TreeSearch(const Kernel& kernel, const TreeSearchParameters& parameters = {});

  /// Result of a search.
  enum class Outcome : uint8_t {
    found,       ///< `placement()` is at most `height` high
    impossible,  ///< no placement is that low
    gave_up,     ///< the allowed work was not enough to decide
  };

  /// Searches in several orders, each first with little work and then with more, until `*work_left` is used up.
  Outcome search(int64_t height, int64_t* work_left);
  const KernelPlacement& placement() const { return placement_; }

  /// Returns the approximate number of steps of one direct descent to a placement. A search with less work is
  /// pointless.
  int64_t work_per_descent() const;

  /// Returns false if the kernel has too many boxes, or too many pairs of boxes that are live at the same time.
  static bool can_search(const Kernel& kernel, const TreeSearchParameters& parameters);

 private:
  /// Rule by which the search chooses the section at whose next box it branches.
  enum class Rule : uint8_t { forced_then_lowest, lowest_box, fewest_choices, lowest_section, min_slack };
  struct Change {
    int32_t* where;
    int32_t before;
  };
  struct Span {
    size_t begin, end;  ///< range in pool_: remaining boxes of one part, by birth
  };

  void reset(int32_t height);
  void order_boxes(int which, uint64_t seed);
  bool place_part(Span part);
  bool branch_until_placed(Span part);
  bool raise_waiting(Span part);
  int choose(Span part, int32_t begin, int32_t end);
  int on_its_floor_beneath(int box) const;
  int lowest_of(Span part) const;
  bool stack(int box);
  bool place_rest(Span part, int box);
  bool reject_floor(Span part, int box);
  int32_t min_support(int box) const;
  uint64_t fingerprint(Span part) const;
  void set(int32_t* where, int32_t value);
  void undo(size_t mark);

  static constexpr int32_t kPlaced = int32_t{1} << 30;  ///< low_ of a placed box: above every offset

  const Kernel& kernel_;
  const TreeSearchParameters parameters_;
  int64_t unit_ = 1;  ///< common divisor of all sizes
  size_t box_count_ = 0;
  std::vector<int32_t> size_;
  std::vector<int32_t> twins_;  ///< first box with the same lifetime and size
  std::vector<int32_t> met_;    ///< boxes that are live at the same time as a box, for all boxes one after another
  std::vector<size_t> met_begin_;
  std::vector<int32_t> by_birth_;
  std::vector<int64_t> crowd_;

  Rule rule_ = Rule::forced_then_lowest;
  int32_t height_ = 0;
  std::vector<int32_t> rank_;   ///< preferred boxes, if the rule leaves a choice
  std::vector<int32_t> floor_;  ///< per box: smallest offset above the placed boxes that are live at the same time
  std::vector<int32_t> low_;    ///< per box: lower bound of its offset; kPlaced if it is placed
  std::vector<int32_t> room_;   ///< per section: largest offset at which the remaining boxes still fit
  std::vector<int32_t> offset_;
  std::vector<int32_t> choices_;  ///< per section, scratch: number of boxes that can be next; those on their floor are
                                  ///< counted from bit 16
  std::vector<int32_t> lowest_;   ///< per section, scratch: smallest low_ of a remaining box
  std::vector<int32_t> pool_;
  std::vector<Change> changes_;
  std::unordered_set<uint64_t> infeasible_;  ///< fingerprints of parts that cannot be placed within infeasible_height_
  int32_t infeasible_height_ = 0;
  int64_t work_ = 0;
  int64_t work_limit_ = 0;
  bool gave_up_ = false;
  KernelPlacement placement_;
};

}  // namespace plimsoll::placing
