// Walks through a segment's ops in order and predicts when each is done, copies and exchanges beside them included.
#pragma once

#include <map>

#include "plimsoll/cost_model.h"
#include "plimsoll/trace.h"

namespace plimsoll {

/// Ops run one after another. Copies run beside them, one at a time in each direction; exchanges that were started run
/// beside them too, one at a time.
class SegmentClock {
 public:
  /// Both live as long as the clock.
  SegmentClock(const CostModel& model, const Trace& trace) : model_(model), trace_(trace) {}

  /// Runs the next op.
  void run(const Op& op);

  /// Seconds from the segment's begin to the end of the last op.
  double now() const { return now_; }
  /// Seconds of these in which ops waited for exchanges.
  double waited() const { return waited_; }

 private:
  void run_exchange(const Op& op);

  const CostModel& model_;
  const Trace& trace_;
  double now_ = 0, waited_ = 0;
  double copies_free_[2] = {0, 0};        // out, in
  double exchanges_free_ = 0;             // the last exchange that was started is done
  std::map<BufferId, double> copied_;     // by target
  std::map<BufferId, double> exchanged_;  // by target
};

}  // namespace plimsoll
