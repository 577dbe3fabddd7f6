// Offload: saved values spend the time between forward and backward in host memory; what is marked as lying elsewhere
// (optimizer state, gradients, parameters) comes to the device only while ops use it. Copies run beside the ops
// (plan/graph/copy_schedule says when).
//
//     forward    v = …   [v -> host …………]            saved: one copy out, one copy in, by a buffer each
//     backward              [host -> v' ……] … v'
//     update     [state -> s' …] update s' [s' -> state …]      lies elsewhere: a visit of the device for each use
//     update     [gradient -> g' …] update g' state             or the op runs where the state is
//
// Runs after recompute, whose ops may read what is moved and what lies elsewhere, and before placement. Nothing is
// computed otherwise: bit-equal results. Rhu et al., "vDNN", MICRO 2016; Ren et al., "ZeRO-Offload", USENIX ATC 2021.
#pragma once

#include <vector>

#include "plimsoll/cost_model.h"
#include "plimsoll/trace.h"

namespace plimsoll {

struct OffloadChoice {
  std::vector<char> saved;    ///< by buffer: moved to host memory in the longest time in which no op uses it; not
                              ///< persistent, of one segment. May be empty: nothing
  bool host_updates = false;  ///< ops that may (plan/graph/host_updates) run on the host
};

/// The trace with the choice carried out, and visits of the device for every buffer that `trace` says lies elsewhere.
/// `limit`: live bytes on the device that copies may not exceed to overlap ops; persistent buffers are not in it.
Trace offload(Trace trace, const OffloadChoice& choice, const CostModel& cost, int64_t limit);

}  // namespace plimsoll
