// When to start each copy between the device and another memory, and when to wait for it.
//
//     ops      a   b   c   d   e | f   g   h   i        v is made by a, last read by b, and wanted again by h
//     out          [=========]   |                       started after a: v's bytes are free when it is done
//     in                         |       [=====]         started as late as it can be and still be there for h
//
// Each direction of the link does one copy at a time, in the order in which they are started. Where bytes are short a
// copy out is waited for earlier than it is done by itself, and a copy in is started later than would hide it: the ops
// then wait, and the limit is kept. Of copies in that want the same bytes the one that is needed first has them.
#pragma once

#include <cstdint>
#include <vector>

#include "plimsoll/cost_model.h"
#include "plimsoll/trace.h"

namespace plimsoll {

/// Away from the device.
struct CopyOut {
  int64_t bytes = 0;   ///< as placed
  int32_t ready = 0;   ///< it can start before this op: what is copied is not written to any more
  int32_t last = 0;    ///< the last op that needs the device's bytes
  int32_t latest = 0;  ///< it must have been waited for before this op
  int32_t start = 0;   ///< answer: before this op
  int32_t wait = 0;    ///< answer: before this op, in (last, latest]; the device's bytes are free from then on
  Memory to = Memory::host;
};

/// To the device.
struct CopyIn {
  int64_t bytes = 0;     ///< as placed
  int32_t earliest = 0;  ///< it cannot start before this op
  int32_t need = 0;      ///< the op that wants it: the wait is before it
  int32_t start = 0;     ///< answer: before this op, in [earliest, need]; the device's bytes are taken from then on
  Memory from = Memory::host;
};

class CopySchedule {
 public:
  /// For the ops of `segment`. `live` are the device's live bytes by op of the trace, with the copies' buffers counted
  /// only where ops need them: between [.., last] of a copy out and [need, ..] of a copy in they are not. `limit`: more
  /// than so many live bytes are not taken for a copy's sake.
  CopySchedule(const CostModel& cost, const Trace& trace, const Segment& segment, const std::vector<int64_t>& live,
               int64_t limit);

  /// Decides the copies out, then counts their bytes as live.
  void place(std::vector<CopyOut>& copies);
  /// Decides the copies in, then counts their bytes as live.
  void place(std::vector<CopyIn>& copies);

  /// The greatest sum of live bytes, copies included.
  int64_t peak() const;

 private:
  double copy_time(int64_t bytes, Memory far) const;

  const CostModel& cost_;
  int32_t begin_, end_;
  int64_t limit_;
  std::vector<double> seconds_, start_;  // by op of the segment: its own, and when it begins where nothing waits
  std::vector<int64_t> live_;            // by op of the segment
};

}  // namespace plimsoll
