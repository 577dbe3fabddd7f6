// Declares the backend of the CPU. Kernels run on the caller's thread, memory is the machine's, and a thread makes the
// copies.
#pragma once

#include "device/backend.h"

namespace plimsoll {

/// Returns the backend, which lives as long as the process.
Backend& cpu_backend();

}  // namespace plimsoll
