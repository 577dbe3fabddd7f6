// Stands in for libtorch's CPU allocator while an op runs, and answers what its kernel asks for from the op's frame.
#pragma once

#include <cstdint>

#include "device/allocation_frame.h"

namespace plimsoll::cpu_allocator {

/// Puts our allocator in libtorch's place, once in a process.
void install();

/// From here to end_op(), this thread's requests belong to the op. What other threads ask for meanwhile is counted.
void begin_op(AllocationFrame& frame);
/// Gives the most bytes that other threads took from the heap at a time since begin_op().
int64_t end_op();

/// The most heap bytes at a time that were taken while ops ran. Of the whole process: what other threads of the
/// program take from libtorch meanwhile is counted as well.
int64_t outside_peak();
void reset_outside_peak();
/// How often the heap was asked meanwhile, since the process began.
int64_t outside_allocations();

}  // namespace plimsoll::cpu_allocator
