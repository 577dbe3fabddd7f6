// Declares the middle stage of placement: repeated first fit, each time with the box that exceeded the height placed
// earlier.
//
// It works on kernels of any size.
#pragma once

#include <cstdint>

#include "plan/placement/placement_first_fit.h"
#include "plan/placement/placement_kernel.h"

namespace plimsoll::placing {

/// Lowers `*best` until its height is at most `goal` or `*work_left` is used up. `seed` is added to that of the kernel.
void promote(const Kernel& kernel, int64_t goal, KernelPlacement* best, int64_t* work_left, uint64_t seed = 0);

}  // namespace plimsoll::placing
