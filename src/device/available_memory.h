// Declares the memory that the machine has available for this process, and the free memory of devices that only
// libtorch knows.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
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

/// Returns the bytes that this process can allocate without swapping. This is the kernel's figure, or the rest of the
/// limit of the process's control groups (containers, batch systems) if that is less. Page cache that can be dropped
/// counts as free. Returns nullopt if the system reports nothing. `root` holds /proc and /sys; it is for tests.
std::optional<int64_t> available_host_memory(const std::filesystem::path& root = "/");

/// Returns the smallest memory limit of the process's control groups, in bytes; nullopt: there is none. `root`: as
/// above.
std::optional<int64_t> control_group_memory(const std::filesystem::path& root = "/");

/// Returns available_host_memory() for all plans for this machine.
std::optional<int64_t> current_host_memory();

/// A fake of current_host_memory() for its lifetime: it returns what `answer` returns, for tests of a machine short of
/// memory. Not thread-safe.
class ScopedFakeHostMemory {
 public:
  using Answer = std::function<std::optional<int64_t>()>;
  explicit ScopedFakeHostMemory(Answer answer);
  ~ScopedFakeHostMemory();
  ScopedFakeHostMemory(const ScopedFakeHostMemory&) = delete;
  ScopedFakeHostMemory& operator=(const ScopedFakeHostMemory&) = delete;

 private:
  Answer previous_;
};

}  // namespace plimsoll
