// Declares the pass that merges the updates of small parameters into one op.
//
// It runs on a finished schedule, like fuse_pointwise: update_in_backward and host_updates choose op by op, and copies
// are timed by the ops that they overlap. Each op costs a dispatch and a launch, and a small one has work for one
// thread only.
#pragma once

#include "plimsoll/planner.h"
#include "plimsoll/trace.h"
#include "trace/merged_ops.h"

namespace plimsoll {

/// Returns the trace with equal updates of segment `update` (`grouping`) merged at the place of the last one. No op
/// between may use what they write or write what they read. Not merged: updates on the host, updates of buffers that
/// are copied to or from another memory, and updates within backward. An update that waits keeps its gradient alive. It
/// does not wait if live bytes would then exceed the trace's peak.
Trace group_updates(Trace trace, const UpdateGrouping& grouping, const MergingParameters& limits = {});

/// A count of recorded updates that run within groups, and of the groups.
struct GroupedUpdates {
  int64_t updates = 0;
  int64_t groups = 0;
};
/// Returns the number of groups in `trace`, and of updates within them.
GroupedUpdates grouped_updates_of(const Trace& trace);

}  // namespace plimsoll
