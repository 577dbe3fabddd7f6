// Exchanges between ranks run beside the ops that follow them.
//
//     before   dW(2)  reduce(2)  update(2)  dX(1)  dW(1)  reduce(1)  update(1)
//     after    dW(2)  start(2)   dX(1)  dW(1)  wait(2)  update(2)  start(1)  wait(1)  update(1)
//
// An exchange is started where it stands, a gather of a parameter as much earlier as it takes. It is waited for before
// the first op that needs it. Updates that need it are moved behind the ops of backward until it is done. This is the
// prefetch and the overlap of PyTorch's FSDP (Zhao et al. 2023, "PyTorch FSDP: experiences on scaling fully sharded
// data parallel") within a limit of bytes.
#pragma once

#include <cstdint>

#include "plimsoll/cost_model.h"
#include "plimsoll/trace.h"

namespace plimsoll {

/// Returns true if `trace` has exchanges that can run beside other ops.
bool has_exchanges(const Trace& trace);

/// Returns the cost model by which all ranks of a training plan exchanges: all must make them in the same order, so it
/// must not follow from what one rank has measured. Figures of the catalogue are those of all ranks with the same
/// device.
CostModel cost_of_all_ranks(const CostModel& cost);

/// Splits exchanges into a start and a wait (Op::exchange). What is held longer for it is held only while the live
/// bytes of the device are at most `limit`. The scratch of all exchanges of a segment that run beside ops becomes one
/// buffer, a further argument of the start and of the wait. Ranks whose `cost` is equal get the same order of
/// exchanges.
Trace overlap_exchanges(Trace trace, const CostModel& cost, int64_t limit);

}  // namespace plimsoll
