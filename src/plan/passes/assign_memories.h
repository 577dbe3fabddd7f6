// Declares the pass that marks buffers with their memory from step to step: the device, the host or a disk.
//
// It runs before recompute and offload: the offload pass inserts copies for each buffer that is not on the device.
#pragma once

#include <vector>

#include "plimsoll/trace.h"

namespace plimsoll {

/// Returns the trace with `memory[b]` as the memory of buffer b. `memory` has an entry for each buffer of the trace.
Trace assign_memories(Trace trace, const std::vector<Memory>& memory);

}  // namespace plimsoll
