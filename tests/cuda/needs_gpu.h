// Declares the precondition of GPU tests: skip on a machine without a GPU, fail if the GPU cannot be used.
#pragma once

#include <filesystem>
#include <string>

#include "device/backend.h"

namespace plimsoll {

/// Returns the reason why device cuda cannot be used; empty: it can.
inline std::string why_no_gpu() {
  try {
    backend_for("cuda");
    return {};
  } catch (const std::exception& error) {
    return error.what();
  }
}

/// Returns true if this machine has an NVIDIA device that this build is for.
inline bool has_gpu() {
#ifdef PLIMSOLL_HAS_CUDA
  return std::filesystem::exists("/dev/nvidia0");
#else
  return false;
#endif
}

}  // namespace plimsoll
