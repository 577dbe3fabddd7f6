// Declares predictions for the cost model (cost_model.h): the dtype of an op, the seconds of exchanges between
// ranks, and the clock of a segment's ops, copies and exchanges.
#pragma once

#include <map>

#include "plimsoll/cost_model.h"
#include "plimsoll/trace.h"

namespace plimsoll {

/// Returns the dtype that an op computes in: that of its first floating-point operand.
DType compute_type_of(const Op& op);

/// Returns the buffer that a copy or an exchange writes.
inline BufferId target_of(const Op& op) {
  return op.arguments[0].views[0].buffer;
}

/// Returns the seconds of `op`, an exchange: the overhead plus the larger of exchange_seconds() and the op's traffic in
/// the rank's own memory at the streaming rate. Times of the op that were measured without other ranks are ignored.
double seconds_of_exchange(const CostModel& model, const Op& op);

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
