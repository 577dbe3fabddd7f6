// Loads the backends that are libraries of their own, on first use. The backend for NVIDIA devices is one: machines
// without such a device need neither it nor the libraries that it links.
#pragma once

#include <string>

#include "device/backend.h"

namespace plimsoll::backend_library {

/// Returns the backend of "cuda", opened on first use. Returns nullptr and sets `missing` to the reason if there is no
/// driver, no device or no library.
Backend* open_cuda(std::string& missing);

/// Loads libtorch's kernels for ROCm, which are installed next to libtorch if it is built for ROCm. Returns false and
/// sets `missing` to the reason if they do not exist or cannot be loaded.
bool load_hip(std::string& missing);

/// Type of libplimsoll_cuda's entry point, `extern "C" plimsoll_open_backend`.
using OpenBackend = Backend* (*)(std::string& missing);

}  // namespace plimsoll::backend_library
