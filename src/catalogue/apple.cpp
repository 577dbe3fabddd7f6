// Lists Apple's devices, M1 to M5: one entry for each chip with all its GPU cores and each size of memory.
#include <fmt/format.h>

#include <array>

#include "catalogue/catalogue.h"

namespace plimsoll::catalogue {
namespace {

// Metal's recommendedMaxWorkingSetSize without a change of iogpu.wired_limit_mb. Later systems allow more: 11.8 of 16
// GiB was observed on macOS 15, 107.5 of 128 GiB on macOS 26.
constexpr const char* kUsableSource =
    "usable: derived: recommendedMaxWorkingSetSize of macOS 13 and 14, two thirds of the memory up to 32 GiB and three "
    "quarters above (Metal logs of 10.67 GiB of 16, 21.33 of 32, 72 of 96; later systems give up to 84 %)";

// Returns the usable bytes. Memory is shared: each gigabyte of a model is missing for the rest of the machine.
int64_t working_set(int64_t memory) {
  return memory <= 32 * GiB ? memory / 3 * 2 : memory / 4 * 3;
}

constexpr Vendor kApple = {
    .name = "apple",
    .device = "mps",
    .launch_seconds = 10e-6,
    .context_source = "context: estimated: Metal device, command queues and compiled kernels",
    .workspace_source = "library workspace: none: PyTorch's MPS kernels take what they need call by call",
    .launch_source = "launch: estimated: 10 us are usual with PyTorch's MPS backend"};
constexpr const char* kLinkSource = "host link: derived: the memory's bandwidth, as nothing has to cross a bus";
constexpr const char* kPeerSource =
    "peer link: estimated: a machine has one device, and Ethernet of 10 Gbit/s is the network of most";

constexpr int kLanes = 128;  // fp32 multiply-adds in each core and clock, the same in all chips
// Speed of fp16 operations on M5's neural accelerators, as a multiple of the lanes' speed.
constexpr double kAcceleratorGain = 4;

struct Row {
  const char* chip;
  int year;
  int cores;         ///< number of GPU cores
  double clock;      ///< GHz
  double bandwidth;  ///< GB/s
  bool accelerators;
  const char* sheet;
  std::vector<int> sizes;  ///< GiB; the first is the size that the chip's name alone means
};

const std::vector<Row>& rows() {
  static const std::vector<Row> rows = {
      {"M1", 2020, 8, 1.278, 68, false, "Apple M1 announcement, 2020 (2.6 TFLOP/s)", {8, 16}},
      {"M1 Pro", 2021, 16, 1.296, 200, false, "Apple M1 Pro announcement, 2021 (5.2 TFLOP/s)", {16, 32}},
      {"M1 Max", 2021, 32, 1.296, 400, false, "Apple M1 Max announcement, 2021 (10.4 TFLOP/s)", {32, 64}},
      {"M1 Ultra", 2022, 64, 1.296, 800, false, "Apple M1 Ultra announcement, 2022", {64, 128}},
      {"M2", 2022, 10, 1.398, 100, false, "Apple M2 announcement, 2022 (3.6 TFLOP/s)", {8, 16, 24}},
      {"M2 Pro", 2023, 19, 1.398, 200, false, "Apple M2 Pro announcement, 2023", {16, 32}},
      {"M2 Max", 2023, 38, 1.398, 400, false, "Apple M2 Max announcement, 2023", {32, 64, 96}},
      {"M2 Ultra", 2023, 76, 1.398, 800, false, "Apple M2 Ultra announcement, 2023", {64, 128, 192}},
      {"M3", 2023, 10, 1.398, 100, false, "Apple M3 announcement, 2023", {8, 16, 24}},
      {"M3 Pro", 2023, 18, 1.398, 150, false, "Apple M3 Pro announcement, 2023", {18, 36}},
      {"M3 Max", 2023, 40, 1.398, 400, false, "Apple M3 Max announcement, 2023", {48, 64, 128}},
      {"M3 Ultra", 2025, 80, 1.398, 800, false, "Apple M3 Ultra announcement, 2025", {96, 256, 512}},
      {"M4", 2024, 10, 1.470, 120, false, "Apple M4 announcement, 2024", {16, 24, 32}},
      {"M4 Pro", 2024, 20, 1.470, 273, false, "Apple M4 Pro announcement, 2024", {24, 48, 64}},
      {"M4 Max", 2024, 40, 1.578, 546, false, "Apple M4 Max announcement, 2024", {48, 64, 128}},
      {"M5", 2025, 10, 1.620, 153, true, "Apple M5 announcement, 2025", {16, 24, 32}},
      {"M5 Pro", 2026, 20, 1.620, 307, true, "Apple M5 Pro announcement, 2026", {24, 48, 64}},
      {"M5 Max", 2026, 40, 1.620, 614, true, "Apple M5 Max announcement, 2026", {48, 64, 128}},
  };
  return rows;
}

std::string rates_source(const Row& row) {
  std::string source = fmt::format(
      "rates: derived: {} cores x {} lanes x 2 x {:.3f} GHz (clock as reported by users, the lower where reports "
      "differ)",
      row.cores, kLanes, row.clock);
  if (!row.accelerators) return source + "; fp16 and bf16 run at fp32's speed";
  return source + fmt::format("; fp16 and bf16 {:g} x that, Apple's claim for the neural accelerators in the cores",
                              kAcceleratorGain);
}

DeviceSpec device_of(const Row& row, int size) {
  DeviceSpec device = device_of_vendor(kApple, row.year);
  device.name = fmt::format("Apple {} ({} GB)", row.chip, size);
  for (const char* letter = row.chip; *letter != '\0'; ++letter)
    device.id += *letter == ' ' ? '-' : static_cast<char>(*letter | 0x20);  // digits do not change
  if (size == row.sizes.front()) device.aliases.push_back(device.id);
  device.id += fmt::format("-{}gb", size);
  device.architecture = fmt::format("Apple {} GPU, {} cores", row.chip, row.cores);
  device.memory_bytes = int64_t{size} * GiB;
  device.usable_bytes = working_set(device.memory_bytes);
  device.context_bytes = 128 * MiB;
  device.library_workspace_bytes = 0;
  device.unified_memory = true;
  device.memory_bandwidth = row.bandwidth * kGiga;
  const double fp32 = row.cores * kLanes * 2 * row.clock * kGiga;
  const double half = row.accelerators ? kAcceleratorGain * fp32 : fp32;
  device.rates = {.fp32 = fp32, .tf32 = 0, .fp16 = half, .bf16 = half, .fp8 = 0, .int8 = 0};
  device.host_link = device.memory_bandwidth;
  device.peer_link = "ethernet-10";
  device.sources = {fmt::format("memory, bandwidth: {}", row.sheet),
                    rates_source(row),
                    kUsableSource,
                    kApple.context_source,
                    kApple.workspace_source,
                    kLinkSource,
                    kPeerSource,
                    kApple.launch_source};
  return device;
}

}  // namespace

std::vector<DeviceSpec> apple_devices() {
  std::vector<DeviceSpec> devices;
  for (const Row& row : rows())
    for (const int size : row.sizes) devices.push_back(device_of(row, size));
  return devices;
}

}  // namespace plimsoll::catalogue
