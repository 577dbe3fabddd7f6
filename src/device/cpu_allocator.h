// Declares the replacement of libtorch's CPU allocator: while an op runs, the op's frame answers its kernel's requests.
#pragma once

#include <cstdint>

#include "device/allocation_frame.h"

namespace plimsoll::cpu_allocator {

/// Replaces libtorch's allocator, once in a process.
void install();

/// Begins an op: until end_op(), this thread's requests belong to it. Requests of threads in a parallel region during
/// that time are counted: they are the kernel's workers. Other threads of the program are not.
void begin_op(AllocationFrame& frame);
/// Ends an op. Returns the largest number of bytes that other threads allocated on the heap at one time since
/// begin_op().
int64_t end_op();

/// Returns the largest number of heap bytes allocated at one time by ops and their kernels' workers, of the whole
/// process.
int64_t out_of_arena_peak();
void reset_out_of_arena_peak();
/// Returns the number of heap allocations while ops ran, since the process began.
int64_t out_of_arena_allocations();

}  // namespace plimsoll::cpu_allocator
