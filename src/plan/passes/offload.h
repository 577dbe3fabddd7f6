// Offload: saved values spend the time between forward and backward in host memory, and optimizer state lies there
// except while the update uses it. Copies run beside the ops (plan/copy_schedule says when).
//
//     forward    v = …   [v -> host …………]            saved: one copy out, one copy in, by a buffer each
//     backward              [host -> v' ……] … v'
//     update     [state -> s' …] update s' [s' -> state …]      state: a visit of the device for each use
//
// Runs after recompute, whose ops may read what is moved, and before placement. Nothing is computed otherwise:
// bit-equal results. Rhu et al., "vDNN", MICRO 2016; Ren et al., "ZeRO-Offload", USENIX ATC 2021.
#pragma once

#include <vector>

#include "plimsoll/cost_model.h"
#include "plimsoll/trace.h"

namespace plimsoll {

/// What lies in host memory, by buffer of the trace that the pass is given; a list may be empty: nothing.
struct OffloadChoice {
  std::vector<char> saved;  ///< moved away in the longest time in which no op uses it; not persistent, of one segment
  std::vector<char> state;  ///< persistent: lies there from step to step
};

/// The trace with the choice carried out. `limit`: live bytes on the device that copies may not exceed to overlap ops;
/// persistent buffers are not in it.
Trace offload(Trace trace, const OffloadChoice& choice, const CostModel& cost, int64_t limit);

}  // namespace plimsoll
