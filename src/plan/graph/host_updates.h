// Which updates may run on the host, where the state that they work on lies anyway: Ren et al., "ZeRO-Offload", USENIX
// ATC 2021.
//
//     on the device    parameter, state -> device, update, -> host
//     on the host      gradient -> host, update; the parameter -> device where that is where it lies
//
// Which of the two is faster is the cost model's to say; both compute the same.
#pragma once

#include <vector>

#include "plimsoll/trace.h"

namespace plimsoll {

/// By op of `trace`, in which buffers are marked with the memory that they lie in: whether it may run on the host. That
/// is an op of the update that makes nothing new, writes only parameters and state, of these at least one that lies in
/// host memory, and reads nothing that lies on disk. What it writes no other op of the update touches: an update of
/// several ops stays on the device. A parameter that lies on the device is not touched after it in its segment. A
/// gradient may be spoilt (libtorch's fused kernels divide it by its scale in place) if nobody wants it afterwards.
std::vector<char> host_updates(const Trace& trace);

}  // namespace plimsoll
