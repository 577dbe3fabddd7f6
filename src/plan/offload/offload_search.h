// Recompute, keep or move: saved values may also spend the time until backward in host memory.
//
// Which values: at the link's price of a byte, a value is worth moving where rebuilding it costs more. Of the regions
// (plan/recompute/recompute_regions) the first k move what they keep: their values wait longest, and the copies of the
// last ones would have to come back at once. For every k the others are solved as without a link
// (plan/recompute/recompute_search), each combination is carried out (ApplyChoices), and what it takes is read off
// the result: bytes, and the time that ops wait for copies.
#pragma once

#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "plan/offload/apply_choices.h"
#include "plan/recompute/recompute_search.h"

namespace plimsoll {

struct OffloadAnswer {
  KeptValues kept;          ///< by value; what is moved is kept as well
  std::vector<char> moved;  ///< by value
  double seconds = 0;       ///< that one micro batch takes longer than with everything kept
  int64_t peak = 0;         ///< live bytes within the training segments, persistent buffers left out
  int64_t host = 0;         ///< bytes moved
};

class OffloadSearch {
 public:
  /// All must outlive this.
  OffloadSearch(const Trace& trace, const RecomputeSearch& search, const CostModel& cost, ApplyChoices apply,
                const OffloadParameters& parameters = {});

  /// The choice that takes least time with at most `limit` live bytes on the device and `host_limit` in host memory, or
  /// nothing. `pinned`: what is kept is not to be chosen, only what of it is moved.
  /// `by_value`: block checkpoints are not among the proposals.
  std::optional<OffloadAnswer> cheapest(int64_t limit, int64_t host_limit, const KeptValues* pinned = nullptr,
                                        bool by_value = false) const;

  /// The choice with the least bytes on the device, whatever it takes; `pinned` likewise.
  OffloadAnswer leanest(int64_t host_limit, const KeptValues* pinned = nullptr) const;
  /// The same of what the search for the least time begins with, which leaves block checkpoints out.
  OffloadAnswer leanest_by_value(int64_t host_limit) const;

  /// No choice that fits takes fewer seconds more than everything kept does.
  double bound(int64_t limit, int64_t host_limit) const;

 private:
  OffloadAnswer leanest_of(const std::vector<KeptValues>& proposals, int64_t host_limit) const;
  OffloadAnswer evaluate(const KeptValues& kept, std::vector<char> moved, int64_t limit) const;
  std::vector<char> movable(const KeptValues& kept, int64_t host_limit) const;

  const Trace& trace_;
  const RecomputeSearch& search_;
  const CostModel& cost_;
  ApplyChoices apply_;
  const OffloadParameters parameters_;
  Trace bare_;            // what evaluate() reads of the trace: it is copied very often
  CostModel bare_cost_;   // of its ops
  double micro_seconds_;  // with everything kept
  // By host_limit and what is pinned (empty: nothing).
  mutable std::map<std::pair<int64_t, KeptValues>, OffloadAnswer> leanest_;
  mutable std::map<int64_t, OffloadAnswer> leanest_by_value_;
};

}  // namespace plimsoll
