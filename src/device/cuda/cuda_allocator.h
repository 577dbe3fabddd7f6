// Declares the replacement of libtorch's caching allocator on NVIDIA devices. While an op runs, the op's frame answers
// its kernel's requests; freed memory is not cached.
#pragma once

#include <cstdint>

#include "device/allocation_frame.h"

namespace plimsoll::cuda::allocator {

/// Replaces libtorch's allocator, once in a process. Must be called before any allocation from libtorch's own.
void install();

/// Begins an op: until end_op(), `frame` answers this thread's requests. A request that the frame has no range for
/// comes from cudaMalloc and is counted; during capture it is refused.
void begin_op(AllocationFrame& frame);
void end_op();

/// Returns the bytes from cudaMalloc that are not freed: workspaces of libraries, and allocations between ops.
int64_t out_of_arena_now();
/// out_of_arena_peak() returns the largest number of these bytes at one time while ops ran, since the last reset.
/// device_allocations() returns the number of calls of cudaMalloc at any time.
int64_t out_of_arena_peak();
void reset_out_of_arena_peak();
int64_t device_allocations();

}  // namespace plimsoll::cuda::allocator
