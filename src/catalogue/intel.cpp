// Lists Intel's devices: Arc and the Data Center GPU Max.
#include <fmt/format.h>

#include "catalogue/catalogue.h"

namespace plimsoll::catalogue {
namespace {

constexpr Vendor kIntel = {
    .name = "intel",
    .device = "xpu",
    .launch_seconds = 10e-6,
    .context_source = "context: estimated: Level Zero context, queues and compiled kernels",
    .workspace_source = "library workspace: none: oneDNN's scratchpads are taken call by call in PyTorch's XPU backend",
    .launch_source = "launch: estimated: 8 to 12 us are usual with SYCL over Level Zero"};

constexpr const char* kReported =
    "usable: total memory as PyTorch's XPU backend reports it on this device (public issue reports, 2025 to 2026)";
constexpr const char* kEstimated =
    "usable: estimated: 94.4 % of nominal, as is reported for the Arc A770 (15.11 GiB of 16); early drivers gave less";
constexpr double kArcShare = 15.11 / 16;

struct Row {
  const char* id;
  const char* name;
  const char* architecture;
  int year;
  double memory, usable;  ///< GiB
  const char* usable_source;
  double bandwidth;  ///< GB/s
  DenseRates rates;  ///< TFLOP/s: fp32, tf32, fp16, bf16, fp8, int8
  const char* rates_source;
  int pcie;          ///< generation of PCI Express
  double host_link;  ///< GB/s one way
  const char* sheet;
  std::vector<std::string> aliases;
};

constexpr const char* kXmx =
    "fp32: shading units x clock x 2; int8 by XMX: Intel's peak TOPS; others derived: half of it for each doubling of "
    "the width";
constexpr const char* kMaxRates =
    "derived: Xe cores x operations a clock (fp32 256, tf32 2048, fp16 and bf16 4096, int8 8192) x 1.55 GHz";
constexpr const char* kStackRates =
    "derived: as for the Max 1100, 64 Xe cores; vectors at 1.6 GHz, matrices at 1.3 GHz (torchtitan's table of peak "
    "rates, 2025)";

const std::vector<Row>& rows() {
  static const std::vector<Row> rows = {
      // id, name, architecture, year, GiB, GiB usable, by
      // GB/s, {fp32, tf32, fp16, bf16, fp8, int8}, by, PCI Express, GB/s to the host, sheet, aliases
      // clang-format off
      {"arc-a750", "Intel Arc A750", "Xe-HPG (Alchemist)", 2022, 8, 8 * kArcShare, kEstimated,
       512, {14.7, 0, 114.5, 114.5, 0, 229}, kXmx, 4, pcie(4, 16), "Intel Arc A750 specifications, 2022", {}},
      {"arc-a770", "Intel Arc A770 16GB", "Xe-HPG (Alchemist)", 2022, 16, 15.11, kReported,
       560, {17.2, 0, 131, 131, 0, 262}, kXmx, 4, pcie(4, 16), "Intel Arc A770 specifications, 2022",
       {"arc-a770-16gb", "Intel Arc A770"}},
      {"arc-b580", "Intel Arc B580", "Xe2-HPG (Battlemage)", 2024, 12, 12 * kArcShare, kEstimated,
       456, {13.7, 0, 116.5, 116.5, 0, 233}, kXmx, 4, pcie(4, 8), "Intel Arc B580 specifications, 2024", {}},
      {"arc-pro-b60", "Intel Arc Pro B60", "Xe2-HPG (Battlemage)", 2025, 24, 24 * kArcShare, kEstimated,
       456, {12.3, 0, 98.5, 98.5, 0, 197}, kXmx, 5, pcie(5, 8), "Intel Arc Pro B60 specifications, 2025", {"b60"}},
      {"max1100", "Intel Data Center GPU Max 1100", "Xe-HPC (Ponte Vecchio)", 2023, 48, 49136.0 / 1024, kReported,
       1229, {22.2, 177.8, 355.5, 355.5, 0, 711.1}, kMaxRates, 5, pcie(5, 16),
       "Intel Data Center GPU Max Series Technical Overview, 2024", {"Max 1100"}},
      {"max1550", "Intel Data Center GPU Max 1550 (one of two stacks)", "Xe-HPC (Ponte Vecchio)", 2023, 64,
       65520.0 / 1024, kReported, 1638, {26.2, 170.4, 340.8, 340.8, 0, 681.6}, kStackRates, 5, pcie(5, 16),
       "Intel Data Center GPU Max Series Technical Overview, 2024; derived: half of the module",
       {"Max 1550", "Intel Data Center GPU Max 1550"}},
      // clang-format on
  };
  return rows;
}

DeviceSpec device_of(const Row& row) {
  DeviceSpec device = device_of_card(kIntel, row);
  device.architecture = row.architecture;
  device.usable_bytes = gibibytes(row.usable);
  device.context_bytes = 256 * MiB;
  device.library_workspace_bytes = 0;
  device.pcie_generation = row.pcie;
  device.peer_link = pcie_link(row.pcie, row.host_link);
  device.sources = sources_of(kIntel, row.sheet, row.rates_source, row.usable_source,
                              "derived: PCI Express, the host link of the card; Xe Link is not counted");
  return device;
}

}  // namespace

std::vector<DeviceSpec> intel_devices() {
  return devices_of({&rows()}, device_of);
}

}  // namespace plimsoll::catalogue
