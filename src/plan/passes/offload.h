// Declares the offload pass: it inserts copies for values and buffers that are stored in host memory or on disk while
// no op uses them.
//
// Saved values are offloaded between forward and backward. Buffers marked with another memory (optimizer state,
// gradients, parameters) are on the device only while ops use them. Copies overlap the ops
// (plan/graph/copy_schedule.h).
//
//     forward    v = …   [v -> host …………]            saved value: one copy out, one copy in, each to a new buffer
//     backward              [host -> v' ……] … v'
//     update     [state -> s' …] update s' [s' -> state …]      offloaded: a residency interval for each use
//     update     [gradient -> g' …] update g' state             or the op runs on the host, next to the state
//
// The pass runs after recompute, whose ops may read offloaded buffers, and before placement. Arithmetic does not
// change: bit-equal results. Sources: Rhu et al., "vDNN", MICRO 2016; Ren et al., "ZeRO-Offload", USENIX ATC 2021.
#pragma once

#include <vector>

#include "plimsoll/cost_model.h"
#include "plimsoll/trace.h"

namespace plimsoll {

/// A choice of the buffers to offload within a segment, and of the ops that run on the host.
struct OffloadChoice {
  std::vector<char> offloaded_saved;  ///< by buffer: offloaded in the longest time in which no op uses it; not
                                      ///< persistent, of one segment. May be empty: nothing
  bool host_updates = false;          ///< run those ops on the host that may (plan/graph/host_updates.h)
};

/// Returns the trace with the choice applied, and residency intervals for every buffer that `trace` marks with another
/// memory. `limit`: live bytes on the device, at most, at which copies may overlap ops, without persistent buffers.
Trace offload(Trace trace, const OffloadChoice& choice, const CostModel& cost, int64_t limit);

}  // namespace plimsoll
