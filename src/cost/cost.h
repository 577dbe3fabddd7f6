// Declares predictions for the cost model (cost_model.h): the dtype of an op, the seconds of exchanges between
// ranks, and the clock of a segment's ops, copies and exchanges.
#pragma once

#include <array>
#include <deque>
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

/// The links to host memory and disk: copies run in the order of their starts, one at a time in each direction. While
/// both directions copy to or from host memory, each is slower (CostModel::host_link_duplex).
class CopyLinks {
 public:
  /// `both_ways`: speed of a direction while the other one copies as well, as a multiple of its speed alone.
  explicit CopyLinks(double both_ways) : both_ways_(both_ways) {}

  /// Starts a copy that takes `seconds` alone, at second `now`, at least that of the start before.
  void start(BufferId target, bool into_device, bool on_host, double now, double seconds);
  /// Returns the second at which the copy into `target` ends if no other copy starts until then; 0 if there is none.
  /// Precondition: each earlier copy into `target` was waited for.
  double end_of(BufferId target);

 private:
  struct Copy {
    BufferId target;
    bool on_host;    // false: the other end is the disk
    double ready;    // second at which it may begin
    double seconds;  // left, alone
  };
  static constexpr double kNotEnded = -1;

  // Runs copies until one ends or a copy of the other direction begins.
  void run_to_next_event();

  double both_ways_, now_ = 0;
  std::array<std::deque<Copy>, 2> queues_;  // out, in; empty if both_ways_ is 1
  std::array<double, 2> free_{};            // second at which a direction is free, if both_ways_ is 1
  std::map<BufferId, double> ends_;         // second at which the last copy into a buffer ends
};

/// A clock for ops that run one after another. Copies overlap ops, one at a time in each direction. Exchanges that were
/// started also overlap ops, one at a time.
class SegmentClock {
 public:
  /// Keeps references to both arguments.
  SegmentClock(const CostModel& model, const Trace& trace);

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
  CopyLinks copies_;
  double exchanges_free_ = 0;             // seconds at which the last started exchange is done
  std::map<BufferId, double> exchanged_;  // seconds at which an exchange is done, by target
};

}  // namespace plimsoll
