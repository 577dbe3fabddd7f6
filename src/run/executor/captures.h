// Declares Captures: sequences of ops that a device runs by itself (CUDA graphs), once they have run often enough.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <vector>

#include "device/backend.h"
#include "plimsoll/device_work.h"
#include "plimsoll/trace.h"

namespace plimsoll {

/// Divides segments into sequences that can be captured and ops that cannot. These are copies between memories, ops
/// that run on the host, random ops and exchanges between ranks. Random ops need a new seed each time; exchanges wait
/// for other processes.
class Captures {
 public:
  /// `backend` and `trace` must outlive it.
  Captures(Backend& backend, const Trace& trace) : backend_(backend), trace_(trace) {}

  /// Runs a segment by `run_op(index)`; from the third settled run in a row on, it runs as captured sequences if the
  /// device can capture. `settled`: the segment's ops allocate nothing that was not planned; false: it runs op by op.
  /// `run_op` must be valid as long as this object.
  void run(const Segment& segment, const std::function<void(int32_t)>& run_op, bool settled);

  /// Counts a run of a segment whose ops ran one by one because the caller waits for each.
  void note_waited(const Segment& segment);

  /// Returns the number of captured sequences.
  int64_t captured() const { return work_.sequences; }

  /// Returns what was captured, and why the rest was not. Its results of kernels are empty.
  DeviceWork work() const;

 private:
  struct Piece {
    int32_t begin, end;
    std::unique_ptr<CapturedOps> ops;  // none: op by op
  };
  std::vector<Piece> pieces_of(const Segment& segment) const;
  bool may_capture(const Op& op) const;

  struct Runs {
    SegmentKind kind = SegmentKind::micro;
    int settled = 0;  // runs in a row
    bool last_settled = false;
    bool waited = false;  // the caller waited for each op of the last run
  };

  Backend& backend_;
  const Trace& trace_;
  std::map<int32_t, Runs> runs_;                // by a segment's first op
  std::map<int32_t, std::vector<Piece>> done_;  // by a segment's first op
  DeviceWork work_;                             // what was captured and refused
};

}  // namespace plimsoll
