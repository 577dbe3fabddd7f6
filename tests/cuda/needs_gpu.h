// Declares the precondition of GPU tests: skip on a machine without a GPU, fail if the GPU cannot be used.
// PLIMSOLL_EXPECT_GPU in the environment says that there is one, also if its file is named otherwise.
#pragma once

#include <gtest/gtest.h>

#include <cstdlib>
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
  return std::getenv("PLIMSOLL_EXPECT_GPU") != nullptr || std::filesystem::exists("/dev/nvidia0");
#else
  return false;
#endif
}

}  // namespace plimsoll

/// Ends a test, or its set-up, where device cuda cannot be used.
#define PLIMSOLL_NEEDS_GPU()                                                \
  if (const std::string why = ::plimsoll::why_no_gpu(); !why.empty()) {     \
    if (::plimsoll::has_gpu()) FAIL() << "the GPU cannot be used: " << why; \
    GTEST_SKIP() << why;                                                    \
  }                                                                         \
  static_assert(true)
