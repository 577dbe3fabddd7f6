// Declares the pass that lets exchanges between ranks overlap the ops that follow them.
//
//     before   dW(2)  reduce(2)  update(2)  dX(1)  dW(1)  reduce(1)  update(1)
//     after    dW(2)  start(2)   dX(1)  dW(1)  wait(2)  update(2)  start(1)  wait(1)  update(1)
//
// An exchange starts at its recorded place; a gather of a parameter starts earlier by the time that it takes. The wait
// is before the first op that needs the result. Updates that need it are moved behind ops of backward until it is done.
// This is the prefetch and the overlap of PyTorch's FSDP (Zhao et al. 2023, "PyTorch FSDP: experiences on scaling fully
// sharded data parallel") within a limit of bytes.
#pragma once

#include <cstdint>

#include "plimsoll/cost_model.h"
#include "plimsoll/trace.h"

namespace plimsoll {

/// Returns whether `trace` has exchanges that can overlap other ops.
bool has_exchanges(const Trace& trace);

/// Returns the cost model for planning exchanges, which is the same on all ranks of a training. All ranks must make
/// exchanges in the same order, so the model must not depend on what one rank has measured. Figures of the catalogue
/// are the same on all ranks with the same device.
CostModel cost_of_all_ranks(const CostModel& cost);

/// Returns the trace with exchanges split into a start and a wait (Op::exchange). Buffers are held longer for an
/// exchange only while the live bytes of the device are at most `limit`. The scratch of all overlapping exchanges of a
/// segment becomes one buffer, an additional argument of start and wait. Ranks with equal `cost` get the same order of
/// exchanges.
Trace overlap_exchanges(Trace trace, const CostModel& cost, int64_t limit);

}  // namespace plimsoll
