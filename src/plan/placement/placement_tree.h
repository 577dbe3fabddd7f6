// The thorough stage of placement: a search for a placement of a kernel within a given height.
//
// A placement that cannot be improved by lowering one box has every box on the arena's floor or on another box. So
// boxes are stacked from below, and each decision is: does box b lie right on what is stacked beneath it by now (its
// floor), or higher, on a box still to come? Either answer raises lower bounds of offsets:
//
//     floor(b) <= low(b) <= offset(b)      low(b) > floor(b): b waits for a box that it will lie on
//
// and a section is beyond hope when no box that is still to come can be its next without passing the height with all
// the others on top of it. Sections that no box to come crosses cut the rest into parts that are searched apart.
// The idea of stacking in a canonical order, with inference by sections and splitting, is that of M. D. Moffitt,
// "MiniMalloc: A Lightweight Memory Allocator for Hardware-Accelerated Machine Learning", ASPLOS 2023; the two-sided
// decision, the choice of the box and the table of hopeless states are ours.
#pragma once

#include <cstddef>
#include <cstdint>
#include <unordered_set>
#include <vector>

#include "plan/placement/placement_first_fit.h"
#include "plan/placement/placement_kernel.h"
#include "plimsoll/plan.h"

namespace plimsoll::placing {

class TreeSearch {
 public:
  /// Keeps a reference to `kernel`.
  explicit TreeSearch(const Kernel& kernel, const TreeSearchParameters& parameters = {});

  enum class Outcome : uint8_t {
    found,       ///< `placement()` is at most the height asked for
    impossible,  ///< there is none
    gave_up,     ///< the work allowed was not enough to tell
  };

  /// Searches in several orders, each first briefly and then longer, until `*work_left` is used up.
  Outcome search(int64_t height, int64_t* work_left);
  const KernelPlacement& placement() const { return placement_; }

  /// Steps that one straight way to a placement takes, about: with less than that a search is pointless.
  int64_t work_of_a_dive() const;

  /// False: the kernel has too many boxes, or too many pairs of boxes that meet.
  static bool can_search(const Kernel& kernel, const TreeSearchParameters& parameters);

 private:
  /// How the section is chosen at whose next box the search branches.
  enum class Rule : uint8_t { forced_then_lowest, lowest_box, fewest_choices, lowest_section, least_slack };
  struct Change {
    int32_t* where;
    int32_t before;
  };
  struct Span {
    size_t begin, end;  ///< in pool_: boxes to come of one part, by birth
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
  int32_t least_support(int box) const;
  uint64_t fingerprint(Span part) const;
  void set(int32_t* where, int32_t value);
  void undo(size_t mark);

  static constexpr int32_t kPlaced = int32_t{1} << 30;  ///< low_ of a placed box: above everything

  const Kernel& kernel_;
  const TreeSearchParameters parameters_;
  int64_t unit_ = 1;  ///< what divides all sizes
  size_t box_count_ = 0;
  std::vector<int32_t> size_;
  std::vector<int32_t> twins_;  ///< the first box with the same lifetime and size
  std::vector<int32_t> met_;    ///< boxes that meet a box, all boxes after one another
  std::vector<size_t> met_begin_;
  std::vector<int32_t> by_birth_;
  std::vector<int64_t> crowd_;

  Rule rule_ = Rule::forced_then_lowest;
  int32_t height_ = 0;
  std::vector<int32_t> rank_;   ///< which box is preferred where the rule leaves a choice
  std::vector<int32_t> floor_;  ///< per box: the least offset above the boxes placed that it meets
  std::vector<int32_t> low_;    ///< per box: a lower bound of its offset; kPlaced when it has one
  std::vector<int32_t> room_;   ///< per section: the greatest offset at which what is to come still fits
  std::vector<int32_t> offset_;
  std::vector<int32_t> choices_;  ///< per section, scratch: boxes that can be next; on their floor: counted from bit 16
  std::vector<int32_t> lowest_;   ///< per section, scratch: the least low_ of a box to come
  std::vector<int32_t> pool_;
  std::vector<Change> changes_;
  std::unordered_set<uint64_t> hopeless_;  ///< fingerprints of parts that cannot be placed within hopeless_height_
  int32_t hopeless_height_ = 0;
  int64_t work_ = 0;
  int64_t work_limit_ = 0;
  bool gave_up_ = false;
  KernelPlacement placement_;
};

}  // namespace plimsoll::placing
