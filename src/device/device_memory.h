// What memory a device that only libtorch knows has left: asked of the vendor's runtime, which is loaded where it is
// installed.
#pragma once

#include <cstdint>
#include <optional>

namespace plimsoll {

/// Bytes.
struct DeviceMemory {
  int64_t free = 0, total = 0;
};

/// Of the current HIP device (hipMemGetInfo). `library`: for tests; nullptr: libamdhip64, as it is installed.
std::optional<DeviceMemory> hip_memory(const char* library = nullptr);

/// Of Metal's default device: `total` is what the system recommends a program to take of the unified memory
/// (recommendedMaxWorkingSetSize), `free` what of it this program has not allocated yet.
std::optional<DeviceMemory> metal_memory();

}  // namespace plimsoll
