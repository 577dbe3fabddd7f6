// The CPU: kernels run on the caller's thread, memory is the machine's, copies are made by a thread.
#pragma once

#include "device/backend.h"

namespace plimsoll {

/// Lives as long as the process.
Backend& cpu_backend();

}  // namespace plimsoll
