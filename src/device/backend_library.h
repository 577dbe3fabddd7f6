// The backend for NVIDIA's devices is a library of its own, loaded when it is asked for: whoever has no such device
// needs neither it nor what it is linked with.
#pragma once

#include <string>

#include "device/backend.h"

namespace plimsoll::backend_library {

/// The backend of "cuda", opened on first use; nullptr, and why, where it cannot be had: no driver, no device, no
/// library.
Backend* open_cuda(std::string& missing);

/// Loads libtorch's kernels for ROCm, which stand beside libtorch where it is built for that. False, and why, where
/// they are not or cannot be loaded.
bool load_hip(std::string& missing);

/// What libplimsoll_cuda gives: its entry point is `extern "C" plimsoll_open_backend`, of this type.
using OpenBackend = Backend* (*)(std::string& missing);

}  // namespace plimsoll::backend_library
