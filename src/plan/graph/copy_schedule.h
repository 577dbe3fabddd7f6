// Declares the schedule of copies between the device and another memory: when each starts, and when ops wait for it.
//
//     ops      a   b   c   d   e | f   g   h   i        v is made by a, last read by b, and needed again by h
//     out          [=========]   |                       starts after a; v's bytes are free when it is done
//     in                         |       [=====]         starts as late as possible, but early enough for h
//
// Each direction of the link does one copy at a time, in the order in which they are started. If live bytes exceed the
// limit, ops wait for a copy out before it is done by itself, and a copy in starts too late to be hidden. The ops then
// wait, and the limit is kept. If copies in compete for bytes, the one that is needed first gets them.
#pragma once

#include <cstdint>
#include <vector>

#include "plimsoll/cost_model.h"
#include "plimsoll/trace.h"

namespace plimsoll {

/// A copy from the device to host memory or disk.
struct CopyOut {
  int64_t bytes = 0;   ///< bytes as placed
  int32_t ready = 0;   ///< first op before which it may start: the source is not written to after that
  int32_t last = 0;    ///< the last op that needs the device's bytes
  int32_t latest = 0;  ///< op before which the wait must be, at the latest
  int32_t start = 0;   ///< result: the copy starts before this op
  /// Result: the wait is before this op, in (last, latest]; the device's bytes are free from then on.
  int32_t wait = 0;
  Memory to = Memory::host;
};

/// A copy from host memory or disk to the device.
struct CopyIn {
  int64_t bytes = 0;     ///< bytes as placed
  int32_t earliest = 0;  ///< first op before which it may start
  int32_t need = 0;      ///< op that needs the copy: the wait is before it
  /// Result: the copy starts before this op, in [earliest, need]; the device's bytes are used from then on.
  int32_t start = 0;
  Memory from = Memory::host;
};

/// A schedule of the copies of one segment.
class CopySchedule {
 public:
  /// Prepares the schedule for the ops of `segment`. `live`: the device's live bytes by op of the trace. The copies'
  /// buffers are counted only while ops need them: not after `last` of a copy out, and not before `need` of a copy in.
  /// `limit`: live bytes, at most, up to which a copy may hold bytes longer.
  CopySchedule(const CostModel& cost, const Trace& trace, const Segment& segment, const std::vector<int64_t>& live,
               int64_t limit);

  /// Sets `start` and `wait` of the copies out, then counts their bytes as live.
  void place(std::vector<CopyOut>& copies);
  /// Sets `start` of the copies in, then counts their bytes as live.
  void place(std::vector<CopyIn>& copies);

  /// Returns the largest sum of live bytes, copies included.
  int64_t peak() const;

 private:
  double copy_time(int64_t bytes, Memory offload_memory) const;

  const CostModel& cost_;
  int32_t begin_, end_;
  int64_t limit_;
  std::vector<double> seconds_, start_;  // by op of the segment: its seconds, and when it begins if nothing waits
  std::vector<int64_t> live_;            // live bytes by op of the segment
};

}  // namespace plimsoll
