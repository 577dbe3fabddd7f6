// Declares a backend for any device that libtorch has kernels for, through libtorch alone. It serves devices whose
// memory has no addresses for arithmetic (Metal), and devices of which nothing else is known here.
#pragma once

#include "device/backend.h"

namespace plimsoll {

/// Returns a backend whose arena is one tensor of bytes of the device, and whose tensors are views of it. Kernels' own
/// allocations come from the framework's allocator, uncounted; an output made there is copied to its planned offset.
/// Copies wait for each other. Returns nullptr if libtorch has no such device here.
Backend* generic_backend(c10::DeviceType type);

}  // namespace plimsoll
