// Makes one op of the updates of small parameters.
//
// Runs on a finished schedule, beside fuse_pointwise and for the same reasons: update_in_backward and host_updates
// choose op by op, and copies are timed by the ops that they run beside. An op by itself costs a dispatch and a launch
// whatever it works on, and a small one has work for one thread only.
#pragma once

#include "plimsoll/plan.h"
#include "plimsoll/trace.h"
#include "trace/update_group.h"

namespace plimsoll {

/// Runs updates of segment `update` that are alike (`grouping`) as one where the last of them stood. Nothing that lies
/// between may touch what they write or write what they read. Left alone: what runs on the host, what works on buffers
/// that are copied to or from another memory, updates within backward. An update that waits keeps its gradient alive:
/// where that would be more bytes than are live at the trace's peak, it does not wait.
Trace group_updates(Trace trace, const UpdateGrouping& grouping, const MergingParameters& limits = {});

/// Recorded updates that run within groups, and how many groups there are.
struct GroupedUpdates {
  int64_t updates = 0;
  int64_t groups = 0;
};
GroupedUpdates grouped_updates_of(const Trace& trace);

}  // namespace plimsoll
