// Reads the load of the machine's processors and the use of memory from the system, and from the vendors' management
// libraries, which are loaded if they are installed.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace plimsoll {

struct GpuUse {
  std::string name;
  int64_t memory_total = 0, memory_used = 0;  ///< bytes, in total and used by all programs
  std::optional<double> busy;                 ///< [0, 1], over the last sample of the driver
  std::string source;                         ///< "NVML", "ROCm SMI"
};

/// Returns NVIDIA's devices through libnvidia-ml.so.1 and AMD's through librocm_smi64; none if neither is installed or
/// they fail.
std::vector<GpuUse> gpus_in_use();

struct MemoryOfMachine {
  int64_t total = 0, available = 0;  ///< bytes
};
std::optional<MemoryOfMachine> memory_of_machine(const std::filesystem::path& root = "/");

/// Returns the resident bytes of a process; nullopt if it has ended.
std::optional<int64_t> resident_bytes_of(int64_t pid, const std::filesystem::path& root = "/");

/// Seconds of processor time so far, of all processors, and how many of them were idle. A load is the difference of two
/// readings.
struct ProcessorTime {
  double total = 0, idle = 0;
};
std::optional<ProcessorTime> processor_time(const std::filesystem::path& root = "/");
std::optional<double> processor_seconds_of(int64_t pid, const std::filesystem::path& root = "/");

}  // namespace plimsoll
