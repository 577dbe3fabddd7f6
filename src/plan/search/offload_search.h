// Declares the search that recomputes, keeps or offloads each saved value, and the variants of a step that offload
// some state, gradients and parameters.
//
// The price of a byte is the time of its two copies. If copies overlap ops, lower prices are tried: the time of one
// copy, a half and an eighth of it. A value is worth offloading if its recomputation takes longer than its bytes cost.
//
// The first k regions (plan/search/recompute_regions) offload all values that they keep: backward uses the values of
// the first regions last, so there is much time for their copies. The other regions only keep or recompute values
// (plan/search/recompute_search). Several k are tried. Each combination is applied to the trace (ApplyChoices); its
// bytes, and the time that ops wait for copies, are read from the result.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "plan/search/offload_candidates.h"
#include "plan/search/recompute_search.h"
#include "plimsoll/planner.h"

namespace plimsoll {

/// A solution of the search: a choice for each value, and its bytes and time.
struct OffloadSolution {
  KeptValues kept;              ///< by value; offloaded values are kept as well
  std::vector<char> offloaded;  ///< by value: 1 if it is offloaded
  double seconds = 0;           ///< additional seconds of one micro batch, compared with keep-all
  int64_t peak = 0;             ///< largest sum of live bytes within the training segments, without persistent buffers
  int64_t host_bytes = 0;       ///< bytes of the offloaded values
};

/// A search over kept, recomputed and offloaded values of one trace.
class OffloadSearch {
 public:
  /// Keeps references to `trace`, `search` and `cost`.
  OffloadSearch(const Trace& trace, const RecomputeSearch& search, const CostModel& cost,
                const OffloadParameters& parameters = {});

  /// Returns the choice with the least time among those tried, with at most `limit` live bytes on the device and
  /// `host_limit` bytes in host memory; nullopt if none fits. `fixed`: the kept values are fixed, and only offload is
  /// chosen. `without_block_checkpointing`: block checkpointing is not tried.
  std::optional<OffloadSolution> cheapest(int64_t limit, int64_t host_limit, const KeptValues* fixed = nullptr,
                                          bool without_block_checkpointing = false) const;

  /// Returns the choice with the fewest live bytes on the device among those tried; of choices with equal bytes, the
  /// fastest. `fixed` as in cheapest().
  OffloadSolution min_memory_solution(int64_t host_limit, const KeptValues* fixed = nullptr) const;
  /// Returns min_memory_solution() of a search that does not try block checkpointing.
  OffloadSolution min_memory_without_block_checkpointing(int64_t host_limit) const;

  /// Returns a lower bound of OffloadSolution::seconds of any choice that fits the limits.
  double lower_bound(int64_t limit, int64_t host_limit) const;

 private:
  OffloadSolution min_memory_solution_of(const std::vector<KeptValues>& proposals, int64_t host_limit) const;
  OffloadSolution evaluate(const KeptValues& kept, std::vector<char> offloaded, int64_t limit) const;
  std::vector<char> offloadable(const KeptValues& kept, int64_t host_limit) const;

  const Trace& trace_;
  const RecomputeSearch& search_;
  const CostModel& cost_;
  const OffloadParameters parameters_;
  Trace skeleton_;           // reduced copy of the trace for evaluate(), which copies it often
  CostModel skeleton_cost_;  // cost model for the ops of skeleton_
  double micro_seconds_;     // seconds of a micro batch, with all values kept
  // Cached results of min_memory_solution(), by host_limit and fixed; no values: `fixed` was null.
  mutable std::map<std::pair<int64_t, KeptValues>, OffloadSolution> min_memory_solutions_;
  mutable std::map<int64_t, OffloadSolution> min_memory_without_block_checkpointing_;
};

/// An assignment of buffers to memories, with the search over saved values for it.
struct OffloadVariant {
  OffloadAssignment assignment;
  Trace trace;                   ///< prepared trace, its buffers marked with their memories
  int64_t persistent_bytes = 0;  ///< bytes of persistent buffers on the device
  const OffloadSearch* offload_search = nullptr;
  /// Searches over this variant's trace. Null if only the update uses the offloaded buffers: such variants share the
  /// search of OffloadVariants.
  std::unique_ptr<const RecomputeSearch> own_recompute_search;
  std::unique_ptr<const OffloadSearch> own_offload_search;
};

/// A cache of variants, one for each assignment.
class OffloadVariants {
 public:
  /// Keeps references to `trace`, `search` and `options`.
  OffloadVariants(const Trace& trace, const RecomputeSearch& search, const PlanOptions& options);

  const OffloadCandidates& candidates() const { return candidates_; }

  /// Returns the variant that offloads `fraction`, counted in kinds (plan/search/offload_candidates.h), with at most
  /// `host_room` bytes in host memory. Each variant is made once; making one may prepare a new search.
  const OffloadVariant& at(double fraction, int64_t host_room) const;

 private:
  const Trace& trace_;
  const RecomputeSearch& search_;
  const PlanOptions& options_;
  OffloadCandidates candidates_;
  OffloadSearch offload_search_;
  mutable std::map<std::vector<Memory>, std::unique_ptr<OffloadVariant>> made_;
};

}  // namespace plimsoll
