#include "cli/utilization.h"

#include <unistd.h>

#include <array>
#include <fstream>
#include <memory>
#include <sstream>

#include "base/process.h"

namespace plimsoll {
namespace {

constexpr unsigned kMaxGpus = 64;
constexpr int64_t kKiB = 1024;

// Declares the required parts of nvml.h; its interface is stable by contract.
struct NvmlMemory {
  unsigned long long total, free, used;
};
struct NvmlUtilization {
  unsigned gpu, memory;
};
using NvmlDevice = void*;

void add_nvidia(std::vector<GpuUse>& gpus) {
  static const LoadedLibrary library("libnvidia-ml.so.1");
  static const auto init = library.find<int()>("nvmlInit_v2");
  static const auto count_of = library.find<int(unsigned*)>("nvmlDeviceGetCount_v2");
  static const auto handle_of = library.find<int(unsigned, NvmlDevice*)>("nvmlDeviceGetHandleByIndex_v2");
  static const auto name_of = library.find<int(NvmlDevice, char*, unsigned)>("nvmlDeviceGetName");
  static const auto memory_of = library.find<int(NvmlDevice, NvmlMemory*)>("nvmlDeviceGetMemoryInfo");
  static const auto busy_of = library.find<int(NvmlDevice, NvmlUtilization*)>("nvmlDeviceGetUtilizationRates");
  if (!init || !count_of || !handle_of || !name_of || !memory_of) return;
  static const bool ready = init() == 0;
  unsigned count = 0;
  if (!ready || count_of(&count) != 0) return;
  for (unsigned i = 0; i < count && i < kMaxGpus; ++i) {
    NvmlDevice device = nullptr;
    NvmlMemory memory{};
    std::array<char, 96> name{};
    if (handle_of(i, &device) != 0 || memory_of(device, &memory) != 0) continue;
    GpuUse gpu;
    gpu.name = name_of(device, name.data(), name.size() - 1) == 0 ? name.data() : "NVIDIA GPU";
    gpu.memory_total = static_cast<int64_t>(memory.total);
    gpu.memory_used = static_cast<int64_t>(memory.used);
    if (NvmlUtilization busy{}; busy_of && busy_of(device, &busy) == 0) gpu.busy = busy.gpu / 100.0;
    gpu.source = "NVML";
    gpus.push_back(std::move(gpu));
  }
}

void add_amd(std::vector<GpuUse>& gpus) {
  static const LoadedLibrary newest("librocm_smi64.so"), seventh("librocm_smi64.so.7"), sixth("librocm_smi64.so.6"),
      fifth("librocm_smi64.so.5");
  static const LoadedLibrary& library = newest.loaded()    ? newest
                                        : seventh.loaded() ? seventh
                                        : sixth.loaded()   ? sixth
                                                           : fifth;
  static const auto init = library.find<int(uint64_t)>("rsmi_init");
  static const auto count_of = library.find<int(uint32_t*)>("rsmi_num_monitor_devices");
  static const auto name_of = library.find<int(uint32_t, char*, size_t)>("rsmi_dev_name_get");
  static const auto total_of = library.find<int(uint32_t, int, uint64_t*)>("rsmi_dev_memory_total_get");
  static const auto used_of = library.find<int(uint32_t, int, uint64_t*)>("rsmi_dev_memory_usage_get");
  static const auto busy_of = library.find<int(uint32_t, uint32_t*)>("rsmi_dev_busy_percent_get");
  if (!init || !count_of || !name_of || !total_of || !used_of) return;
  static const bool ready = init(0) == 0;
  uint32_t count = 0;
  if (!ready || count_of(&count) != 0) return;
  constexpr int kVideoMemory = 0;  // RSMI_MEM_TYPE_VRAM
  for (uint32_t i = 0; i < count && i < kMaxGpus; ++i) {
    uint64_t total = 0, used = 0;
    std::array<char, 128> name{};
    if (total_of(i, kVideoMemory, &total) != 0 || used_of(i, kVideoMemory, &used) != 0) continue;
    GpuUse gpu;
    gpu.name = name_of(i, name.data(), name.size() - 1) == 0 ? name.data() : "AMD GPU";
    gpu.memory_total = static_cast<int64_t>(total);
    gpu.memory_used = static_cast<int64_t>(used);
    if (uint32_t busy = 0; busy_of && busy_of(i, &busy) == 0) gpu.busy = busy / 100.0;
    gpu.source = "ROCm SMI";
    gpus.push_back(std::move(gpu));
  }
}

// Returns the bytes of a line such as "MemTotal: 16314732 kB" of a file in /proc.
std::optional<int64_t> line_of(const std::filesystem::path& file, const std::string& name) {
  std::ifstream stream(file);
  for (std::string line; std::getline(stream, line);) {
    if (!line.starts_with(name + ":")) continue;
    std::istringstream rest(line.substr(name.size() + 1));
    int64_t number = 0;
    if (rest >> number && number >= 0 && number < (int64_t{1} << 52)) return number * kKiB;
    return std::nullopt;
  }
  return std::nullopt;
}

double ticks_a_second() {
  const long ticks = sysconf(_SC_CLK_TCK);
  return ticks > 0 ? static_cast<double>(ticks) : 100;
}

}  // namespace

std::vector<GpuUse> gpus_in_use() {
  std::vector<GpuUse> gpus;
  add_nvidia(gpus);
  add_amd(gpus);
  return gpus;
}

std::optional<MemoryOfMachine> memory_of_machine(const std::filesystem::path& root) {
  const auto total = line_of(root / "proc/meminfo", "MemTotal"), free = line_of(root / "proc/meminfo", "MemAvailable");
  if (!total || !free) return std::nullopt;
  return MemoryOfMachine{*total, *free};
}

std::optional<int64_t> resident_bytes_of(int64_t pid, const std::filesystem::path& root) {
  return line_of(root / "proc" / std::to_string(pid) / "status", "VmRSS");
}

std::optional<ProcessorTime> processor_time(const std::filesystem::path& root) {
  std::ifstream stream(root / "proc/stat");
  std::string cpu;
  if (!(stream >> cpu) || cpu != "cpu") return std::nullopt;
  // user nice system idle iowait irq softirq steal; the first two include guests.
  ProcessorTime time;
  for (int i = 0; i < 8; ++i) {
    double ticks = 0;
    if (!(stream >> ticks)) return std::nullopt;
    time.total += ticks / ticks_a_second();
    if (i == 3 || i == 4) time.idle += ticks / ticks_a_second();
  }
  return time;
}

std::optional<double> processor_seconds_of(int64_t pid, const std::filesystem::path& root) {
  std::ifstream stream(root / "proc" / std::to_string(pid) / "stat");
  std::string line;
  if (!std::getline(stream, line)) return std::nullopt;
  // The name in brackets may contain any character, brackets too: fields are counted after the last bracket.
  const size_t end = line.rfind(')');
  if (end == std::string::npos) return std::nullopt;
  std::istringstream rest(line.substr(end + 1));
  std::string skipped;
  double user = 0, system = 0;
  for (int i = 0; i < 11; ++i) rest >> skipped;  // fields state ... cmajflt
  if (!(rest >> user >> system)) return std::nullopt;
  return (user + system) / ticks_a_second();
}

}  // namespace plimsoll
