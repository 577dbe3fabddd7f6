// Tests of a GPU are skipped where there is none, and fail where there is one that cannot be used.
#pragma once

#include <filesystem>
#include <string>

#include "device/backend.h"
#include "device/utilisation.h"

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

/// Whether the machine has an NVIDIA device, as its driver tells.
inline bool has_gpu() {
  return !gpus_in_use().empty() || std::filesystem::exists("/proc/driver/nvidia/version");
}

}  // namespace plimsoll
