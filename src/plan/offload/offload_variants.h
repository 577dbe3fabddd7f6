// Declares the variants of a step. Each variant offloads some state, gradients and parameters, and has a search that
// keeps, recomputes or offloads its saved values.
#pragma once

#include <map>
#include <memory>
#include <utility>

#include "plan/offload/offload_candidates.h"
#include "plan/offload/offload_search.h"
#include "plan/recompute/recompute_search.h"
#include "plimsoll/planner.h"

namespace plimsoll {

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

  /// Returns the variant that offloads `fraction`, counted in kinds (plan/offload/offload_candidates.h), with at most
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
