// Declares a clock that predicts when each op of a segment ends, overlapping copies and exchanges included.
#pragma once

#include <map>

#include "plimsoll/cost_model.h"
#include "plimsoll/trace.h"

namespace plimsoll {

/// A clock for ops that run one after another. Copies overlap ops, one at a time in each direction. Exchanges that were
/// started also overlap ops, one at a time.
class SegmentClock {
 public:
  /// Keeps references to both arguments.
  SegmentClock(const CostModel& model, const Trace& trace) : model_(model), trace_(trace) {}

  /// Advances the clock by the next op.
  void run(const Op& op);

  /// Returns the seconds from the segment's begin to the end of the last op.
  double now() const { return now_; }
  /// Returns the part of now() in which ops waited for exchanges, in seconds.
  double waited() const { return waited_; }

 private:
  void run_exchange(const Op& op);

  const CostModel& model_;
  const Trace& trace_;
  double now_ = 0, waited_ = 0;
  double copies_free_[2] = {0, 0};        // seconds at which the link is free: out, in
  double exchanges_free_ = 0;             // seconds at which the last started exchange is done
  std::map<BufferId, double> copied_;     // seconds at which a copy is done, by target
  std::map<BufferId, double> exchanged_;  // seconds at which an exchange is done, by target
};

}  // namespace plimsoll
