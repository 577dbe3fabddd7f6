// Declares the offload pass: it inserts copies for values and buffers in host memory or on disk, and chooses updates
// that run on the host. Before it, a pass marks each buffer's memory from step to step.
//
// Saved values are offloaded between forward and backward. Buffers marked with another memory (optimizer state,
// gradients, parameters) are on the device only while ops use them. Copies overlap the ops
// (plan/passes/segment_copies.h).
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
  bool host_updates = false;          ///< run those ops on the host that may (host_updates())
};

/// Returns the trace with the choice applied, and residency intervals for every buffer that `trace` marks with another
/// memory. `limit`: live bytes on the device, at most, at which copies may overlap ops, without persistent buffers.
Trace offload(Trace trace, const OffloadChoice& choice, const CostModel& cost, int64_t limit);

/// Returns for each op of `trace` whether it may run on the host because its optimizer state is there (Ren et al.,
/// "ZeRO-Offload", USENIX ATC 2021):
///
///     on the device    parameter, state -> device, update, -> host
///     on the host      gradient -> host, update; the parameter -> device if it is stored there
///
/// The cost model decides which of the two is faster; both compute the same values. The buffers of `trace` must be
/// marked with their memories. An op may run on the host if all of this holds:
///  - It belongs to the update and allocates no result.
///  - It writes only parameters and state, at least one state buffer in host memory, and uses nothing on disk.
///  - No other op of the update uses what it writes, so an update of several ops stays on the device.
///  - No later op of its segment uses a parameter that it writes on the device.
///  - No later op reads a gradient that it overwrites (libtorch's fused kernels divide it by its scale in place).
std::vector<char> host_updates(const Trace& trace);

/// Returns the trace with `memory[b]` as the memory of buffer b from step to step: the device, the host or a disk.
/// `memory` has an entry for each buffer of the trace. The pass runs before recompute and offload: the offload pass
/// inserts copies for each buffer that is not on the device.
Trace assign_memories(Trace trace, const std::vector<Memory>& memory);

}  // namespace plimsoll
