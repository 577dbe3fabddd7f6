// Declares the choice of updates that may run on the host because their optimizer state is there.
//
// Source: Ren et al., "ZeRO-Offload", USENIX ATC 2021.
//
//     on the device    parameter, state -> device, update, -> host
//     on the host      gradient -> host, update; the parameter -> device if it is stored there
//
// The cost model decides which of the two is faster; both compute the same values.
#pragma once

#include <vector>

#include "plimsoll/trace.h"

namespace plimsoll {

/// Returns for each op of `trace` whether it may run on the host. The buffers of `trace` must be marked with their
/// memories. An op may run on the host if all of this holds:
///  - It belongs to the update and allocates no result.
///  - It writes only parameters and state, at least one state buffer in host memory, and uses nothing on disk.
///  - No other op of the update uses what it writes, so an update of several ops stays on the device.
///  - No later op of its segment uses a parameter that it writes on the device.
///  - No later op reads a gradient that it overwrites (libtorch's fused kernels divide it by its scale in place).
std::vector<char> host_updates(const Trace& trace);

}  // namespace plimsoll
