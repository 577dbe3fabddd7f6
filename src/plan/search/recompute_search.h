// Declares the search for the forward values to keep: the choice with the least recomputation time under a limit of
// live bytes.
//
// Regions are decided one after the other, in forward order. The picture shows live bytes while region i runs forward
// (i) and backward (i'). During i' the values that regions 0 .. i - 1 keep are live as well:
//
//     bytes
//       |          ____            peak of region i = kept by 0 .. i-1, plus what i itself needs while it
//       |      ___|    |___                           is recomputed
//       |  ___|            |___
//       +--0---1---2----2'--1'--0'--> time
//
// The best choices of the first i regions form a Pareto front of (bytes kept, time). Dynamic programming over regions
// finds the best combination. If the graph is small, every set of kept values is tried instead.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "plan/search/choice_bytes.h"
#include "plan/search/recompute_regions.h"
#include "plimsoll/planner.h"

namespace plimsoll {

/// A solution of the search.
struct RecomputeSolution {
  KeptValues kept;
  int64_t cost = 0;         ///< picoseconds of the recomputed ops in one micro batch
  int64_t lower_bound = 0;  ///< lower bound of the cost of every choice that fits
  int64_t peak = 0;         ///< largest sum of live bytes within the training segments, without persistent buffers
  bool exact = false;       ///< true: it is optimal: every choice was tried, or nothing is recomputed
};

/// A search over the kept values of a trace.
class RecomputeSearch {
 public:
  /// Prepares the search over the training segments of `trace`, which must outlive it. The same choice applies to all
  /// training segments with the shape of the first (same_shape()). Training segments of another shape keep everything.
  RecomputeSearch(const Trace& trace, const CostModel& cost, const RecomputeParameters& parameters = {});
  ~RecomputeSearch();

  /// Returns the graphs of the segments that the choice applies to, in the order of the trace. Segments that keep
  /// everything have no graph here.
  const std::vector<TrainingGraph>& graphs() const;

  /// Returns the cheapest choice found with at most `limit` live bytes, without persistent buffers; nullopt if none
  /// fits. It is known to be optimal if RecomputeSolution::exact is set.
  std::optional<RecomputeSolution> cheapest(int64_t limit) const;

  /// Returns the answer of cheapest() for the smallest limit for which there is one: its peak.
  RecomputeSolution min_memory_solution() const;

  /// Returns the number of regions of the partition in which a region has at most one block of the model.
  int32_t region_count() const;

  /// Returns for each value of the graph the region (of those that region_count() counts) in which it is first written.
  std::vector<int32_t> region_of_values() const;

  /// Returns the cheapest choice in which the first `offloaded_regions` regions offload all values that they keep, at
  /// `price` picoseconds a byte. Offloaded regions do not count against `limit`. Each other region counts with the
  /// values that it keeps and with the bytes that it needs while it runs. If no choice fits, the other regions keep the
  /// fewest bytes instead. The result is a proposal: its real bytes and time depend on the copies.
  KeptValues cheapest_with_offload(int32_t offloaded_regions, double price, int64_t limit) const;

  /// Returns a lower bound, in picoseconds, of the cost of any choice with at most `limit` live bytes.
  int64_t lower_bound(int64_t limit) const;

  /// Returns the values that may be kept or recomputed: those that are repeatable and that a later op reads.
  const std::vector<int32_t>& decisions() const;
  /// Returns `kept` plus every value that cannot be recomputed and that backward or a recomputed op reads.
  KeptValues make_feasible(KeptValues kept) const;

  /// Returns the choice that recomputes nothing.
  RecomputeSolution keep_all_solution() const;

  /// Returns block checkpointing: each block within `module` (empty: every block) keeps only the values that ops
  /// outside the block read.
  RecomputeSolution checkpoint_blocks(const std::string& module = "") const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace plimsoll
