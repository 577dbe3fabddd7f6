// Any device that libtorch has kernels for, through libtorch alone: for those whose memory has no addresses that could
// be added to (Metal), or of which nothing else is known here.
#pragma once

#include "device/backend.h"

namespace plimsoll {

/// A backend whose arena is one tensor of bytes of the device, and whose tensors are views of it. What kernels ask for
/// themselves comes from the framework's allocator, uncounted; an output made there is copied to its place. Copies wait
/// for each other. nullptr: libtorch has no such device here.
Backend* generic_backend(c10::DeviceType type);

}  // namespace plimsoll
