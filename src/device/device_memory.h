// Declares the free memory of devices that only libtorch knows. It comes from the vendor's runtime, which is loaded if
// it is installed.
#pragma once

#include <cstdint>
#include <optional>

namespace plimsoll {

/// Free and total memory of a device, in bytes.
struct DeviceMemory {
  int64_t free = 0, total = 0;
};

/// Returns the memory of the current HIP device (hipMemGetInfo). `library` is for tests; nullptr: libamdhip64, as
/// installed.
std::optional<DeviceMemory> hip_memory(const char* library = nullptr);

/// Returns the memory of Metal's default device. `total` is the part of the unified memory that the system recommends a
/// program to use (recommendedMaxWorkingSetSize). `free` is the part of `total` that this program has not allocated.
std::optional<DeviceMemory> metal_memory();

}  // namespace plimsoll
