// The middle stage of placement: first fit over and over, each time with the box that stuck out placed earlier. Works
// on kernels of any size.
#pragma once

#include <cstdint>

#include "plan/placement/placement_first_fit.h"
#include "plan/placement/placement_kernel.h"

namespace plimsoll::placing {

/// Lowers `*best` towards `goal` until it is there or `*work_left` is used up. `seed` is added to that of the kernel.
void promote(const Kernel& kernel, int64_t goal, KernelPlacement* best, int64_t* work_left, uint64_t seed = 0);

}  // namespace plimsoll::placing
