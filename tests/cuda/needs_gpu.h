// Tests of a GPU are skipped where there is none, and fail where there is one that cannot be used.
#pragma once

#include <filesystem>
#include <string>

#include "device/backend.h"

namespace plimsoll {

/// Empty: device cuda can be used.
inline std::string why_no_gpu() {
  try {
    backend_for("cuda");
    return {};
  } catch (const std::exception& error) {
    return error.what();
  }
}

/// Whether this machine has an NVIDIA device that this build is for.
inline bool has_gpu() {
#ifdef PLIMSOLL_HAS_CUDA
  return std::filesystem::exists("/dev/nvidia0");
#else
  return false;
#endif
}

}  // namespace plimsoll
