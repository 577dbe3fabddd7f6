// How busy the machine's processors are, and what their memory holds: read from the system and from the vendors'
// management libraries, which are loaded where they are installed.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace plimsoll {

struct GpuUse {
  std::string name;
  int64_t memory_total = 0, memory_used = 0;  ///< bytes, of all programs
  std::optional<double> busy;                 ///< [0, 1], over the last sample of the driver's
  std::string source;                         ///< "NVML", "ROCm SMI"
};

/// NVIDIA's through libnvidia-ml.so.1, AMD's through librocm_smi64; none where neither is installed or they fail.
std::vector<GpuUse> gpus_in_use();

struct MemoryOfMachine {
  int64_t total = 0, available = 0;  ///< bytes
};
std::optional<MemoryOfMachine> memory_of_machine(const std::filesystem::path& root = "/");

/// Bytes that a process has resident; nothing where it is gone.
std::optional<int64_t> resident_bytes_of(int64_t pid, const std::filesystem::path& root = "/");

/// Seconds of processor time so far, to be taken twice: of all processors, with how much of it was idle, and of a
/// process.
struct ProcessorTime {
  double total = 0, idle = 0;
};
std::optional<ProcessorTime> processor_time(const std::filesystem::path& root = "/");
std::optional<double> processor_seconds_of(int64_t pid, const std::filesystem::path& root = "/");

}  // namespace plimsoll
