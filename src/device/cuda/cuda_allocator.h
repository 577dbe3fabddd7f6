// Stands in for libtorch's caching allocator on NVIDIA devices: what a kernel asks for while an op runs is answered
// from the op's frame, and nothing is kept for later.
#pragma once

#include <cstdint>

#include "device/allocation_frame.h"

namespace plimsoll::cuda::allocator {

/// Puts our allocator in libtorch's place, once in a process. Before anything is taken from libtorch's own.
void install();

/// From here to end_op() this thread's requests are the frame's. What it has no place for comes from cudaMalloc, and is
/// counted; under capture that is refused.
void begin_op(AllocationFrame& frame);
void end_op();

/// Bytes that came from cudaMalloc and have not been given back: libraries' workspaces, and what is taken between ops.
int64_t outside_now();
/// The most of them at a time while ops ran, since the last reset, and how often cudaMalloc was called at all.
int64_t outside_peak();
void reset_outside_peak();
int64_t device_allocations();

}  // namespace plimsoll::cuda::allocator
