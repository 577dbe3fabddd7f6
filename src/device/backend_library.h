// The backend for NVIDIA's and AMD's devices is a library of its own, loaded when it is asked for: whoever has no such
// device needs neither it nor what it is linked with.
#pragma once

#include <string>

#include "device/backend.h"

namespace plimsoll::backend_library {

/// The backend of "cuda" or "rocm", opened on first use; nullptr, and why, where it cannot be had: no driver, no
/// device, a libtorch of another kind, no library.
Backend* open(const std::string& device, std::string& missing);

/// What the library gives. Its entry point is `extern "C" plimsoll_open_backend`, of this type.
using OpenBackend = Backend* (*)(const char* device, std::string& missing);

}  // namespace plimsoll::backend_library
