// Which values of forward to keep, under a limit of live bytes: the choice that costs least time.
//
// Regions are chosen over one after the other, in forward order. While region i is backward, what regions 0 .. i - 1
// keep lies beneath it:
//
//     bytes
//       |          ____            peak of region i = kept by 0 .. i-1, and what i itself needs while it is rebuilt
//       |      ___|    |___
//       |  ___|            |___
//       +--0---1---2----2'--1'--0'--> time
//
// so the best choices of the first i regions are a front of (bytes kept, time), and dynamic programming over regions
// finds the best of all combinations. Where the graph is small every set of kept values is tried instead.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "plan/recompute/choice_bytes.h"
#include "plan/recompute/recompute_regions.h"
#include "plimsoll/plan.h"

namespace plimsoll {

struct RecomputeAnswer {
  KeptValues kept;
  int64_t cost = 0;    ///< picoseconds of the steps run again in one micro batch
  int64_t bound = 0;   ///< no choice that fits costs less
  int64_t peak = 0;    ///< live bytes within the training segments, persistent buffers left out
  bool exact = false;  ///< every choice was weighed
};

class RecomputeSearch {
 public:
  /// Over the training segments of `trace`, which must outlive this. One choice holds for all of the first one's shape;
  /// another keeps everything.
  RecomputeSearch(const Trace& trace, const CostModel& cost, const RecomputeParameters& parameters = {});
  ~RecomputeSearch();

  /// Of the segments that are chosen for, in the order of the trace.
  const std::vector<TrainingGraph>& graphs() const;

  /// The cheapest choice with at most `limit` live bytes (persistent buffers left out), or nothing.
  std::optional<RecomputeAnswer> cheapest(int64_t limit) const;

  /// The least limit for which cheapest() has an answer, and that answer.
  int64_t least_limit() const;
  RecomputeAnswer leanest() const;

  /// How many regions of one block each there are.
  int32_t regions() const;

  /// By value of the graph: the region in which it is made.
  std::vector<int32_t> region_of_values() const;

  /// The cheapest choice where the first `moved` regions may keep what they like at `price` picoseconds a byte, because
  /// it does not stay, and what the others keep and all need while they run takes at most `limit` bytes; where nothing
  /// does, the one that holds least. A proposal: what it takes in the end is up to the copies.
  KeptValues cheapest_beside(int32_t moved, double price, int64_t limit) const;

  /// No choice takes fewer picoseconds with at most so many live bytes.
  int64_t bound(int64_t limit) const;

  /// Whether there is so little to decide that everything can be tried; and over which values.
  const std::vector<int32_t>& decisions() const;
  /// `kept`, and what else must be for it to be possible.
  KeptValues made_sound(KeptValues kept) const;

  /// Nothing recomputed.
  RecomputeAnswer keep_everything() const;

  /// Block-level activation checkpointing: of every block within `module` (empty: of every one) only what others read.
  RecomputeAnswer drop_blocks(const std::string& module = "") const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace plimsoll
