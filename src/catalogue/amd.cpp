// Lists AMD's devices, RX 6700 XT to MI355X.
#include <fmt/format.h>

#include "catalogue/catalogue.h"

namespace plimsoll::catalogue {
namespace {

// Bytes that PyTorch allocates for workspaces: rocBLAS's and, if hipBLASLt supports the processor, one for it as well.
constexpr int64_t kRocblas = 32 * MiB, kLargeRocblas = 128 * MiB, kHipblaslt = 76 * MiB;

// Memory that the driver keeps; it is nearly independent of the device's size.
struct Reserve {
  int64_t bytes;
  const char* source;
};

constexpr Reserve kSmall = {
    20 * MiB,
    "usable: derived: nominal less 20 MiB, as total capacity in PyTorch's out-of-memory messages (15.98 GiB of 16 on "
    "an RX 6800 XT, 23.98 of 24 on 24 GB cards, 63.98 of 64, 287.98 of 288; public reports, 2024 to 2026)"};
constexpr Reserve kOfCdna3 = {
    320 * MiB,
    "usable: derived: nominal less 320 MiB, the least total capacity in PyTorch's out-of-memory messages on an MI300X "
    "(191.69 GiB of 192; most say 191.98; public reports, 2024 to 2026)"};
constexpr Reserve kOfRdna4 = {84 * MiB,
                              "usable: derived: nominal less 84 MiB, as total capacity in PyTorch's out-of-memory "
                              "messages on an RX 9070 XT (15.92 "
                              "GiB of 16; public reports, 2026)"};

struct Generation {
  const char* name;
  Reserve reserve;
  int64_t context;          ///< bytes
  int64_t workspace;        ///< bytes
  int pcie;                 ///< generation of PCI Express
  const char* fabric = "";  ///< id of the link between devices; empty: PCI Express
};

constexpr Generation kRdna2Navi22 = {"RDNA2 (gfx1031)", kSmall, 384 * MiB, kRocblas, 4};
constexpr Generation kRdna2Navi21 = {"RDNA2 (gfx1030)", kSmall, 384 * MiB, kRocblas, 4};
constexpr Generation kRdna3Navi31 = {"RDNA3 (gfx1100)", kSmall, 384 * MiB, kRocblas + kHipblaslt, 4};
constexpr Generation kRdna3Navi32 = {"RDNA3 (gfx1101)", kSmall, 384 * MiB, kRocblas + kHipblaslt, 4};
constexpr Generation kRdna3Navi33 = {"RDNA3 (gfx1102)", kSmall, 384 * MiB, kRocblas + kHipblaslt, 4};
constexpr Generation kRdna4 = {"RDNA4 (gfx1201)", kOfRdna4, 384 * MiB, kRocblas + kHipblaslt, 5};
constexpr Generation kCdna1 = {"CDNA (gfx908)", kSmall, 512 * MiB, kRocblas, 4, "infinity-fabric2"};
constexpr Generation kCdna2 = {"CDNA2 (gfx90a)", kSmall, 512 * MiB, kRocblas + kHipblaslt, 4, "infinity-fabric3"};
constexpr Generation kCdna3 = {"CDNA3 (gfx942)",           kOfCdna3, 768 * MiB,
                               kLargeRocblas + kHipblaslt, 5,        "infinity-fabric4"};
constexpr Generation kCdna4 = {"CDNA4 (gfx950)",           kSmall, 768 * MiB,
                               kLargeRocblas + kHipblaslt, 5,      "infinity-fabric4-mi350"};

constexpr Vendor kAmd = {
    .name = "amd",
    .device = "rocm",
    .launch_seconds = 8e-6,
    .context_source =
        "context: estimated: HIP runtime, code objects and scratch; larger than CUDA's, and larger on Instinct",
    .workspace_source =
        "library workspace: PyTorch 2.11, CublasHandlePool.cpp and CUDABlas.cpp: rocBLAS 32 MiB (128 MiB on gfx94x and "
        "gfx95x), and 76 MiB for hipBLASLt where it knows the processor",
    .launch_source = "launch: estimated: 6 to 10 us are usual with HIP"};

struct Row {
  const char* id;
  const char* name;
  const Generation& generation;
  int year;
  double memory;     ///< GiB
  double bandwidth;  ///< GB/s
  DenseRates rates;  ///< TFLOP/s: fp32, tf32, fp16, bf16, fp8, int8
  double host_link;  ///< GB/s one way
  const char* sheet;
  const char* rates_note;
  std::vector<std::string> aliases;
};

constexpr double kPcie4 = pcie(4, 16), kPcie5 = pcie(5, 16);

constexpr const char* kPacked =
    "fp16 two at a time on the vector units, which know no bf16; int8 derived: 4 x fp32 (dp4a)";
constexpr const char* kWmma = "fp32 with dual issue; fp16, bf16 and int8 by WMMA, sums in fp32, at one speed";
constexpr const char* kMatrix = "dense, by matrix cores, fp32 too";
constexpr const char* kRdna2Sheet = "AMD Radeon RX 6000 series specifications, 2020 to 2022";
constexpr const char* kRdna3Sheet = "AMD Radeon RX 7000 series specifications, 2022 to 2023";
constexpr const char* kRdna4Sheet = "AMD Radeon RX 9070 XT specifications, 2025";
constexpr const char* kMi300Sheet = "AMD Instinct MI300X data sheet, 2023";

const std::vector<Row>& rows() {
  static const std::vector<Row> rows = {
      // id, name, generation, year, GiB, GB/s
      // {fp32, tf32, fp16, bf16, fp8, int8}, GB/s to the host, sheet, note, aliases
      // clang-format off
      {"rx6700xt", "AMD Radeon RX 6700 XT", kRdna2Navi22, 2021, 12, 384,
       {13.2, 0, 26.4, 0, 0, 52.9}, kPcie4, kRdna2Sheet, kPacked, {}},
      {"rx6750xt", "AMD Radeon RX 6750 XT", kRdna2Navi22, 2022, 12, 432,
       {13.3, 0, 26.6, 0, 0, 53.2}, kPcie4, kRdna2Sheet, kPacked, {}},
      {"rx6800xt", "AMD Radeon RX 6800 XT", kRdna2Navi21, 2020, 16, 512,
       {20.7, 0, 41.5, 0, 0, 82.9}, kPcie4, kRdna2Sheet, kPacked, {}},
      {"rx6900xt", "AMD Radeon RX 6900 XT", kRdna2Navi21, 2020, 16, 512,
       {23, 0, 46.1, 0, 0, 92.2}, kPcie4, kRdna2Sheet, kPacked, {}},
      {"rx7600", "AMD Radeon RX 7600", kRdna3Navi33, 2023, 8, 288,
       {21.7, 0, 43.5, 43.5, 0, 43.5}, pcie(4, 8), kRdna3Sheet, kWmma, {}},
      {"rx7800xt", "AMD Radeon RX 7800 XT", kRdna3Navi32, 2023, 16, 624,
       {37.3, 0, 74.6, 74.6, 0, 74.6}, kPcie4, kRdna3Sheet, kWmma, {}},
      {"rx7900xt", "AMD Radeon RX 7900 XT", kRdna3Navi31, 2022, 20, 800,
       {51.5, 0, 103, 103, 0, 103}, kPcie4, kRdna3Sheet, kWmma, {}},
      {"rx7900xtx", "AMD Radeon RX 7900 XTX", kRdna3Navi31, 2022, 24, 960,
       {61.4, 0, 122.8, 122.8, 0, 122.8}, kPcie4, kRdna3Sheet, kWmma, {}},
      {"w7900", "AMD Radeon PRO W7900", kRdna3Navi31, 2023, 48, 864,
       {61.3, 0, 122.6, 122.6, 0, 122.6}, kPcie4, "AMD Radeon PRO W7900 data sheet, 2023", kWmma, {"prow7900"}},
      {"rx9070xt", "AMD Radeon RX 9070 XT", kRdna4, 2025, 16, 640,
       {48.7, 0, 195, 195, 389, 389}, kPcie5, kRdna4Sheet, "dense; fp32 with dual issue", {}},
      {"r9700", "AMD Radeon AI PRO R9700", kRdna4, 2025, 32, 640,
       {47.8, 0, 191, 191, 383, 383}, kPcie5, "AMD Radeon AI PRO R9700 data sheet, 2025",
       "dense; fp32 with dual issue", {"aipror9700"}},
      {"mi100", "AMD Instinct MI100", kCdna1, 2020, 32, 1229,
       {46.1, 0, 184.6, 92.3, 0, 184.6}, kPcie4, "AMD Instinct MI100 data sheet, 2020", kMatrix, {}},
      {"mi210", "AMD Instinct MI210", kCdna2, 2022, 64, 1638,
       {45.3, 0, 181, 181, 0, 181}, kPcie4, "AMD Instinct MI210 data sheet, 2022", kMatrix, {}},
      {"mi250", "AMD Instinct MI250 (one of two GCDs)", kCdna2, 2021, 64, 1638,
       {45.3, 0, 181, 181, 0, 181}, kPcie4, "AMD Instinct MI250 data sheet, 2021; derived: half of the module",
       kMatrix, {"AMD Instinct MI250"}},
      {"mi250x", "AMD Instinct MI250X (one of two GCDs)", kCdna2, 2021, 64, 1638,
       {47.9, 0, 191.5, 191.5, 0, 191.5}, kPcie4, "AMD Instinct MI250X data sheet, 2021; derived: half of the module",
       kMatrix, {"AMD Instinct MI250X"}},
      {"mi300x", "AMD Instinct MI300X", kCdna3, 2023, 192, 5300,
       {163.4, 653.7, 1307.4, 1307.4, 2614.9, 2614.9}, kPcie5, kMi300Sheet, kMatrix, {}},
      {"mi325x", "AMD Instinct MI325X", kCdna3, 2024, 256, 6000,
       {163.4, 653.7, 1307.4, 1307.4, 2614.9, 2614.9}, kPcie5, "AMD Instinct MI325X data sheet, 2024", kMatrix, {}},
      {"mi350x", "AMD Instinct MI350X", kCdna4, 2025, 288, 8000,
       {144.2, 0, 2306.9, 2306.9, 4613.7, 4613.7}, kPcie5, "AMD Instinct MI350X data sheet, 2025", kMatrix, {}},
      {"mi355x", "AMD Instinct MI355X", kCdna4, 2025, 288, 8000,
       {157.3, 0, 2516.6, 2516.6, 5033.2, 5033.2}, kPcie5, "AMD Instinct MI355X data sheet, 2025", kMatrix, {}},
      // clang-format on
  };
  return rows;
}

DeviceSpec device_of(const Row& row) {
  DeviceSpec device = device_of_card(kAmd, row);
  device.architecture = row.generation.name;
  device.usable_bytes = device.memory_bytes - row.generation.reserve.bytes;
  device.context_bytes = row.generation.context;
  device.library_workspace_bytes = row.generation.workspace;
  device.pcie_generation = row.generation.pcie;
  const std::string fabric = row.generation.fabric;
  device.peer_link = fabric.empty() ? pcie_link(row.generation.pcie, row.host_link) : fabric;
  device.sources = sources_of(kAmd, row.sheet, fmt::format("{}: {}", row.sheet, row.rates_note),
                              row.generation.reserve.source, fabric.empty() ? kPciePeers : row.sheet);
  return device;
}

}  // namespace

std::vector<DeviceSpec> amd_devices() {
  return devices_of({&rows()}, device_of);
}

}  // namespace plimsoll::catalogue
