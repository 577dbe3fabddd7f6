// A step with part of its buffers lying elsewhere than on the device, ready to be searched: what to recompute and what
// saved values to move beside.
#pragma once

#include <map>
#include <memory>
#include <utility>

#include "plan/offload/away.h"
#include "plan/offload/offload_search.h"
#include "plan/recompute/recompute_search.h"
#include "plimsoll/plan.h"

namespace plimsoll {

struct Arrangement {
  AwayChoice away;
  Trace trace;                   ///< the recorded one, its buffers marked with the memory that they lie in
  int64_t persistent_bytes = 0;  ///< that stay on the device
  const OffloadSearch* moving = nullptr;
  std::unique_ptr<const RecomputeSearch> own_search;  ///< where micro batches use what lies elsewhere
  std::unique_ptr<const OffloadSearch> own_moving;
};

class Arrangements {
 public:
  /// All must outlive this.
  Arrangements(const Trace& trace, const RecomputeSearch& search, const PlanOptions& options, ApplyChoices apply);

  const AwayCandidates& candidates() const { return candidates_; }

  /// That part of the candidates (plan/offload/away) away, with so much room; made once.
  const Arrangement& at(double part, int64_t host_room) const;

 private:
  const Trace& trace_;
  const RecomputeSearch& search_;
  const PlanOptions& options_;
  ApplyChoices apply_;
  AwayCandidates candidates_;
  OffloadSearch moving_;
  mutable std::map<std::vector<Memory>, std::unique_ptr<Arrangement>> made_;
};

}  // namespace plimsoll
