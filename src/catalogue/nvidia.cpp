// Lists NVIDIA's devices, GTX 1060 to GB200.
#include <fmt/format.h>

#include <algorithm>
#include <initializer_list>
#include <string_view>

#include "catalogue/catalogue.h"

namespace plimsoll::catalogue {
namespace {

struct Generation {
  const char* name;
  int threads_per_sm;  ///< maximum resident threads (CUDA C++ Programming Guide, "Compute Capabilities")
  int64_t workspace;   ///< bytes
  int pcie;            ///< generation of PCI Express
  int nvlink;          ///< generation of NVLink, if a form factor or a bridge has it
};

// PyTorch's default workspace, one for each thread and stream that runs matmuls; cuBLASLt shares it.
constexpr int64_t kOldWorkspace = 8 * MiB + 128 * KiB;  // ":4096:2:16:8": two of 4 MiB, eight of 16 KiB
constexpr int64_t kNewWorkspace = 32 * MiB;

constexpr Generation kPascal = {"Pascal", 2048, kOldWorkspace, 3, 1};
constexpr Generation kVolta = {"Volta", 2048, kOldWorkspace, 3, 2};
constexpr Generation kTuring = {"Turing", 1024, kOldWorkspace, 3, 2};
constexpr Generation kAmpere = {"Ampere", 1536, kOldWorkspace, 4, 3};       // GA102 to GA107
constexpr Generation kLargeAmpere = {"Ampere", 2048, kOldWorkspace, 4, 3};  // GA100
constexpr Generation kAda = {"Ada Lovelace", 1536, kOldWorkspace, 4, 4};
constexpr Generation kHopper = {"Hopper", 2048, kNewWorkspace, 5, 4};
constexpr Generation kBlackwell = {"Blackwell", 1536, kNewWorkspace, 5, 5};       // GB202 to GB206
constexpr Generation kLargeBlackwell = {"Blackwell", 2048, kNewWorkspace, 5, 5};  // GB100

// The context: memory of the runtime, loaded kernels and cuBLAS's tables, and a stack of cudaLimitStackSize's default
// for every thread that the device can hold. The formula yields 512 MiB for an RTX 4090 and 584 MiB for an H200.
// Processes with almost no allocations were observed to hold 470 MiB and 612 MiB there.
constexpr int64_t kContextBase = 320 * MiB;
constexpr int64_t kStack = 1 * KiB;

constexpr Vendor kNvidia = {
    .name = "nvidia",
    .device = "cuda",
    .launch_seconds = 5e-6,
    .context_source =
        "context: derived: 320 MiB for runtime and lazily loaded kernels, and 1 KiB of stack (cudaLimitStackSize) "
        "for each resident thread",
    .workspace_source =
        "library workspace: PyTorch 2.11, CublasHandlePool.cpp: 8.125 MiB, 32 MiB from Hopper on (Blackwell: 8.125 or "
        "32 MiB by version, the larger is taken)",
    .launch_source = "launch: estimated: 4 to 6 us are usual with CUDA 12"};

enum class Usable : uint8_t { reported, with_ecc, estimated };

const char* source_of(Usable usable) {
  switch (usable) {
    case Usable::reported:
      return "usable: least total capacity in PyTorch's out-of-memory messages on this device, public issue reports "
             "of 2020 to 2026, rounded down to 0.1 GiB";
    case Usable::with_ecc:
      return "usable: least total capacity in PyTorch's out-of-memory messages on this device with ECC on (its "
             "default), public issue reports of 2020 to 2026, rounded down to 0.1 GiB";
    case Usable::estimated:
      return "usable: estimated: the share that is reported for devices of the same generation and size";
  }
  return "";
}

// Rules that derive the rates from the data sheet.
enum class Rates : uint8_t { sheet, halved, scalar, packed };

const char* source_of(Rates rates) {
  switch (rates) {
    case Rates::sheet:
      return "dense, sums in fp32 at full speed";
    case Rates::halved:
      return "dense; fp16, bf16 and fp8 with sums in fp32, which GeForce does at half the speed of sums in fp16";
    case Rates::scalar:
      return "derived: fp16 at fp32's speed, as cuBLAS computes it there (arithmetic in fp16 has 1/64 of it); int8: "
             "dp4a, 4 x fp32";
    case Rates::packed:
      return "derived: fp16 two at a time, 2 x fp32; int8: dp4a, 4 x fp32";
  }
  return "";
}

struct Row {
  const char* id;
  const char* name;
  const Generation& generation;
  int year;
  int sms;
  double memory, usable;  ///< GiB
  Usable usable_source;
  double bandwidth;  ///< GB/s
  DenseRates rates;  ///< TFLOP/s: fp32, tf32, fp16, bf16, fp8, int8
  Rates rates_source;
  double host_link;  ///< GB/s one way
  const char* sheet;
  std::vector<std::string> aliases;
};

constexpr double kPcie3 = pcie(3, 16), kPcie4 = pcie(4, 16), kPcie5 = pcie(5, 16);

constexpr const char* kPascalSheet = "NVIDIA GeForce GTX 10 series specifications, 2016";
constexpr const char* kVoltaSheet = "NVIDIA Tesla V100 data sheet, 2018";
constexpr const char* kTuringSheet = "NVIDIA Turing GPU Architecture whitepaper, 2018";
constexpr const char* kAmpereSheet = "NVIDIA Ampere GA102 GPU Architecture whitepaper 2.1, 2021";
constexpr const char* kA100Sheet = "NVIDIA A100 data sheet, 2021";
constexpr const char* kAdaSheet = "NVIDIA Ada GPU Architecture whitepaper 2.1, 2023";
constexpr const char* kAdaProSheet = "NVIDIA Ada Lovelace Professional GPU Architecture whitepaper, 2023";
constexpr const char* kH100Sheet = "NVIDIA H100 data sheet, 2024, and Hopper Architecture whitepaper, 2022";
constexpr const char* kRtxBlackwellSheet = "NVIDIA RTX Blackwell GPU Architecture whitepaper, 2025";
constexpr const char* kBlackwellSheet = "NVIDIA Blackwell Architecture Technical Brief, 2024";

const std::vector<Row>& workstation_rows() {
  using enum Usable;
  using enum Rates;
  static const std::vector<Row> rows = {
      // id, name, generation, year, SMs, GiB, GiB usable, by
      // GB/s, {fp32, tf32, fp16, bf16, fp8, int8}, by, GB/s to the host, sheet, aliases
      // clang-format off
      {"gtx1060-6gb", "NVIDIA GeForce GTX 1060 6GB", kPascal, 2016, 10, 6, 5.9, reported,
       192, {4.4, 0, 4.4, 0, 0, 17.5}, scalar, kPcie3, kPascalSheet, {"1060"}},
      {"gtx1080ti", "NVIDIA GeForce GTX 1080 Ti", kPascal, 2017, 28, 11, 10.9, reported,
       484, {11.3, 0, 11.3, 0, 0, 45.4}, scalar, kPcie3, kPascalSheet, {}},
      {"titan-v", "NVIDIA TITAN V", kVolta, 2017, 80, 12, 11.7, estimated,
       653, {14.9, 0, 110, 0, 0, 59.6}, sheet, kPcie3, "NVIDIA TITAN V specifications, 2017", {}},
      {"gtx1660ti", "NVIDIA GeForce GTX 1660 Ti", kTuring, 2019, 24, 6, 5.7, estimated,
       288, {5.4, 0, 10.9, 0, 0, 21.7}, packed, kPcie3, "NVIDIA GeForce GTX 16 series specifications, 2019", {}},
      {"rtx2060", "NVIDIA GeForce RTX 2060", kTuring, 2019, 30, 6, 5.7, reported,
       336, {6.5, 0, 25.8, 0, 0, 103.2}, halved, kPcie3, kTuringSheet, {"rtx2060-6gb"}},
      {"rtx2080ti", "NVIDIA GeForce RTX 2080 Ti", kTuring, 2018, 68, 11, 10.5, reported,
       616, {13.4, 0, 53.8, 0, 0, 215.2}, halved, kPcie3, kTuringSheet, {}},
      {"titan-rtx", "NVIDIA TITAN RTX", kTuring, 2018, 72, 24, 23.5, estimated,
       672, {16.3, 0, 130.5, 0, 0, 261}, sheet, kPcie3, kTuringSheet, {}},
      {"quadro-rtx6000", "NVIDIA Quadro RTX 6000", kTuring, 2018, 72, 24, 23.4, estimated,
       672, {16.3, 0, 130.5, 0, 0, 261}, sheet, kPcie3, kTuringSheet, {}},
      {"quadro-rtx8000", "NVIDIA Quadro RTX 8000", kTuring, 2018, 72, 48, 47.2, estimated,
       672, {16.3, 0, 130.5, 0, 0, 261}, sheet, kPcie3, kTuringSheet, {"rtx8000"}},
      {"rtx3060-12gb", "NVIDIA GeForce RTX 3060 12GB", kAmpere, 2021, 28, 12, 11.6, reported,
       360, {12.7, 12.7, 25.5, 25.5, 0, 101.9}, halved, kPcie4, kAmpereSheet, {"rtx3060"}},
      {"rtx3070", "NVIDIA GeForce RTX 3070", kAmpere, 2020, 46, 8, 7.6, reported,
       448, {20.3, 20.3, 40.6, 40.6, 0, 162.6}, halved, kPcie4, kAmpereSheet, {}},
      {"rtx3080-10gb", "NVIDIA GeForce RTX 3080 10GB", kAmpere, 2020, 68, 10, 9.6, reported,
       760, {29.8, 29.8, 59.5, 59.5, 0, 238}, halved, kPcie4, kAmpereSheet, {"rtx3080"}},
      {"rtx3080-12gb", "NVIDIA GeForce RTX 3080 12GB", kAmpere, 2022, 70, 12, 11.6, estimated,
       912, {30.6, 30.6, 61.3, 61.3, 0, 245.1}, halved, kPcie4,
       "NVIDIA GeForce RTX 3080 specifications, 2022; rates derived: SMs and clock with GA102's rates an SM", {}},
      {"rtx3080ti", "NVIDIA GeForce RTX 3080 Ti", kAmpere, 2021, 80, 12, 11.6, estimated,
       912, {34.1, 34.1, 68.2, 68.2, 0, 272.8}, halved, kPcie4, kAmpereSheet, {}},
      {"rtx3090", "NVIDIA GeForce RTX 3090", kAmpere, 2020, 82, 24, 23.5, reported,
       936, {35.6, 35.6, 71.2, 71.2, 0, 284.6}, halved, kPcie4, kAmpereSheet, {}},
      {"rtx3090ti", "NVIDIA GeForce RTX 3090 Ti", kAmpere, 2022, 84, 24, 23.5, reported,
       1008, {40, 40, 80, 80, 0, 320}, halved, kPcie4, kAmpereSheet, {}},
      {"a2000", "NVIDIA RTX A2000 12GB", kAmpere, 2021, 26, 12, 11.5, reported,
       288, {8, 16, 31.9, 31.9, 0, 63.9}, sheet, kPcie4, "NVIDIA RTX A2000 data sheet, 2021 (with sparsity; halved)",
       {"a2000-12gb"}},
      {"a4000", "NVIDIA RTX A4000", kAmpere, 2021, 48, 16, 15.6, reported,
       448, {19.2, 38.3, 76.7, 76.7, 0, 153.4}, sheet, kPcie4,
       "NVIDIA RTX A4000 data sheet, 2021 (with sparsity; halved)", {}},
      {"a5000", "NVIDIA RTX A5000", kAmpere, 2021, 64, 24, 23.5, reported,
       768, {27.8, 55.6, 111.1, 111.1, 0, 222.2}, sheet, kPcie4,
       "NVIDIA RTX A5000 data sheet, 2021 (with sparsity; halved)", {}},
      {"a6000", "NVIDIA RTX A6000", kAmpere, 2020, 84, 48, 47.4, reported,
       768, {38.7, 77.4, 154.8, 154.8, 0, 309.7}, sheet, kPcie4,
       "NVIDIA RTX A6000 data sheet, 2020; GA102 whitepaper 2.1, 2021", {}},
      {"rtx4060ti-16gb", "NVIDIA GeForce RTX 4060 Ti 16GB", kAda, 2023, 34, 16, 15.5, estimated,
       288, {22.1, 22.1, 44.1, 44.1, 88.2, 176.5}, halved, pcie(4, 8), kAdaSheet, {}},
      {"rtx4070", "NVIDIA GeForce RTX 4070", kAda, 2023, 46, 12, 11.6, estimated,
       504, {29.1, 29.1, 58.3, 58.3, 116.6, 233.2}, halved, kPcie4, kAdaSheet, {}},
      {"rtx4070ti-super", "NVIDIA GeForce RTX 4070 Ti SUPER", kAda, 2024, 66, 16, 15.5, estimated,
       672, {44.1, 44.1, 88.2, 88.2, 176.4, 352.8}, halved, kPcie4,
       "NVIDIA GeForce RTX 4070 Ti SUPER specifications, 2024; rates derived: SMs and clock with AD103's rates an SM",
       {}},
      {"rtx4080", "NVIDIA GeForce RTX 4080", kAda, 2022, 76, 16, 15.5, estimated,
       717, {48.7, 48.7, 97.5, 97.5, 194.9, 389.9}, halved, kPcie4, kAdaSheet, {}},
      {"rtx4080-super", "NVIDIA GeForce RTX 4080 SUPER", kAda, 2024, 80, 16, 15.5, estimated,
       736, {52.2, 52.2, 104.4, 104.4, 208.8, 417.6}, halved, kPcie4,
       "NVIDIA GeForce RTX 4080 SUPER specifications, 2024; rates derived: SMs and clock with AD103's rates an SM",
       {}},
      {"rtx4090", "NVIDIA GeForce RTX 4090", kAda, 2022, 128, 24, 23.5, reported,
       1008, {82.6, 82.6, 165.2, 165.2, 330.3, 660.6}, halved, kPcie4, kAdaSheet, {}},
      {"rtx4000-ada", "NVIDIA RTX 4000 Ada Generation", kAda, 2023, 48, 20, 19.5, estimated,
       360, {26.7, 53.4, 106.9, 106.9, 213.8, 213.8}, sheet, kPcie4,
       "NVIDIA RTX 4000 Ada Generation data sheet, 2023 (427.6 TFLOP/s in fp8 with sparsity); others derived: half "
       "of it for each doubling of the width", {}},
      {"rtx6000-ada", "NVIDIA RTX 6000 Ada Generation", kAda, 2022, 142, 48, 47.4, reported,
       960, {91.1, 182.1, 364.2, 364.2, 728.5, 728.5}, sheet, kPcie4, kAdaProSheet, {"6000ada"}},
      {"rtx5060ti-16gb", "NVIDIA GeForce RTX 5060 Ti 16GB", kBlackwell, 2025, 36, 16, 15.4, reported,
       448, {23.7, 23.7, 47.4, 47.4, 94.9, 189.8}, halved, pcie(5, 8),
       "NVIDIA GeForce RTX 5060 Ti specifications, 2025; rates derived: SMs and clock with GB203's rates an SM", {}},
      {"rtx5070", "NVIDIA GeForce RTX 5070", kBlackwell, 2025, 48, 12, 11.4, estimated,
       672, {30.9, 30.9, 61.7, 61.7, 123.5, 246.9}, halved, kPcie5, kRtxBlackwellSheet, {}},
      {"rtx5070ti", "NVIDIA GeForce RTX 5070 Ti", kBlackwell, 2025, 70, 16, 15.4, estimated,
       896, {43.9, 43.9, 87.9, 87.9, 175.8, 351.5}, halved, kPcie5, kRtxBlackwellSheet, {}},
      {"rtx5080", "NVIDIA GeForce RTX 5080", kBlackwell, 2025, 84, 16, 15.4, estimated,
       960, {56.3, 56.3, 112.6, 112.6, 225.1, 450.2}, halved, kPcie5, kRtxBlackwellSheet, {}},
      {"rtx5090", "NVIDIA GeForce RTX 5090", kBlackwell, 2025, 170, 32, 31.3, reported,
       1792, {104.8, 104.8, 209.5, 209.5, 419, 838}, halved, kPcie5, kRtxBlackwellSheet, {}},
      {"rtxpro6000", "NVIDIA RTX PRO 6000 Blackwell Workstation Edition", kBlackwell, 2025, 188, 96, 94.9, reported,
       1792, {125, 250, 500, 500, 1000, 1000}, sheet, kPcie5,
       "NVIDIA RTX PRO 6000 Blackwell data sheet, 2025 (125 TFLOP/s in fp32, 4000 in fp4 with sparsity); others "
       "derived: half of it for each doubling of the width",
       {"rtxpro6000-blackwell", "rtx6000-blackwell", "NVIDIA RTX PRO 6000 Blackwell Server Edition"}},
      // clang-format on
  };
  return rows;
}

const std::vector<Row>& server_rows() {
  using enum Usable;
  using enum Rates;
  static const std::vector<Row> rows = {
      // id, name, generation, year, SMs, GiB, GiB usable, by
      // GB/s, {fp32, tf32, fp16, bf16, fp8, int8}, by, GB/s to the host, sheet, aliases
      // clang-format off
      {"v100-sxm2-16gb", "NVIDIA Tesla V100 SXM2 16GB", kVolta, 2017, 80, 16, 15.7, with_ecc,
       900, {15.7, 0, 125, 0, 0, 62.8}, sheet, kPcie3, kVoltaSheet, {"v100", "v100-16gb"}},
      {"v100-sxm2-32gb", "NVIDIA Tesla V100 SXM2 32GB", kVolta, 2018, 80, 32, 31.7, with_ecc,
       900, {15.7, 0, 125, 0, 0, 62.8}, sheet, kPcie3, kVoltaSheet, {"v100-32gb"}},
      {"v100-pcie-16gb", "NVIDIA Tesla V100 PCIe 16GB", kVolta, 2017, 80, 16, 15.7, with_ecc,
       900, {14, 0, 112, 0, 0, 56}, sheet, kPcie3, kVoltaSheet, {}},
      {"v100-pcie-32gb", "NVIDIA Tesla V100 PCIe 32GB", kVolta, 2018, 80, 32, 31.7, with_ecc,
       900, {14, 0, 112, 0, 0, 56}, sheet, kPcie3, kVoltaSheet, {}},
      {"t4", "NVIDIA Tesla T4", kTuring, 2018, 40, 16, 14.7, with_ecc,
       320, {8.1, 0, 65, 0, 0, 130}, sheet, kPcie3, "NVIDIA T4 data sheet, 2019", {}},
      {"a100-40gb-pcie", "NVIDIA A100 PCIe 40GB", kLargeAmpere, 2020, 108, 40, 39.3, with_ecc,
       1555, {19.5, 156, 312, 312, 0, 624}, sheet, kPcie4, kA100Sheet, {"a100-pcie-40gb"}},
      {"a100-40gb-sxm", "NVIDIA A100 SXM4 40GB", kLargeAmpere, 2020, 108, 40, 39.3, with_ecc,
       1555, {19.5, 156, 312, 312, 0, 624}, sheet, kPcie4, kA100Sheet, {"a100", "a100-40gb", "a100-sxm4-40gb"}},
      {"a100-80gb-pcie", "NVIDIA A100 PCIe 80GB", kLargeAmpere, 2021, 108, 80, 79.1, with_ecc,
       1935, {19.5, 156, 312, 312, 0, 624}, sheet, kPcie4, kA100Sheet, {"a100-pcie-80gb"}},
      {"a100-80gb-sxm", "NVIDIA A100 SXM4 80GB", kLargeAmpere, 2020, 108, 80, 79.1, with_ecc,
       2039, {19.5, 156, 312, 312, 0, 624}, sheet, kPcie4, kA100Sheet, {"a100-80gb", "a100-sxm4-80gb"}},
      {"a10", "NVIDIA A10", kAmpere, 2021, 72, 24, 22.0, with_ecc,
       600, {31.2, 62.5, 125, 125, 0, 250}, sheet, kPcie4, "NVIDIA A10 data sheet, 2021", {}},
      {"a10g", "NVIDIA A10G", kAmpere, 2021, 80, 24, 22.0, with_ecc,
       600, {35, 35, 70, 70, 0, 140}, sheet, kPcie4, "NVIDIA A10G data sheet, 2021", {}},
      {"a16", "NVIDIA A16 (one of four GPUs)", kAmpere, 2021, 10, 16, 14.5, estimated,
       200, {4.5, 9, 17.9, 17.9, 0, 35.9}, sheet, kPcie4 / 4,
       "NVIDIA A16 data sheet, 2021; the link derived: a quarter of the board's, as all four may copy", {}},
      {"a30", "NVIDIA A30", kLargeAmpere, 2021, 56, 24, 23.5, with_ecc,
       933, {10.3, 82, 165, 165, 0, 330}, sheet, kPcie4, "NVIDIA A30 data sheet, 2021", {}},
      {"a40", "NVIDIA A40", kAmpere, 2020, 84, 48, 44.3, with_ecc,
       696, {37.4, 74.8, 149.7, 149.7, 0, 299.3}, sheet, kPcie4, "NVIDIA A40 data sheet, 2021", {}},
      {"l4", "NVIDIA L4", kAda, 2023, 58, 24, 22.0, with_ecc,
       300, {30.3, 60, 121, 121, 242.5, 242.5}, sheet, kPcie4, "NVIDIA L4 data sheet, 2023 (with sparsity; halved)",
       {}},
      {"l40", "NVIDIA L40", kAda, 2022, 142, 48, 44.3, with_ecc,
       864, {90.5, 90.5, 181, 181, 362, 362}, sheet, kPcie4, "NVIDIA L40 data sheet, 2022", {}},
      {"l40s", "NVIDIA L40S", kAda, 2023, 142, 48, 44.3, with_ecc,
       864, {91.6, 183, 362, 362, 733, 733}, sheet, kPcie4, "NVIDIA L40S data sheet, 2023", {}},
      {"h100-pcie", "NVIDIA H100 PCIe", kHopper, 2022, 114, 80, 79.1, with_ecc,
       2039, {51.2, 378, 756, 756, 1513, 1513}, sheet, kPcie5, kH100Sheet, {"h100-pcie-80gb"}},
      {"h100-sxm", "NVIDIA H100 SXM5 80GB", kHopper, 2022, 132, 80, 79.1, with_ecc,
       3352, {66.9, 494.7, 989.4, 989.4, 1978.9, 1978.9}, sheet, kPcie5, kH100Sheet,
       {"h100", "h100-80gb", "h100-sxm5", "NVIDIA H100 80GB HBM3"}},
      {"h100-nvl", "NVIDIA H100 NVL (one of two GPUs)", kHopper, 2023, 132, 94, 93.0, with_ecc,
       3938, {60, 417.5, 835.5, 835.5, 1670.5, 1670.5}, sheet, kPcie5, kH100Sheet, {"h100-94gb", "NVIDIA H100 NVL"}},
      {"h20", "NVIDIA H20", kHopper, 2024, 78, 96, 94.9, estimated,
       4000, {44, 74, 148, 148, 296, 296}, sheet, kPcie5, "NVIDIA H20 specifications, 2024", {}},
      {"h200", "NVIDIA H200 SXM", kHopper, 2024, 132, 141, 139.7, with_ecc,
       4800, {66.9, 494.7, 989.4, 989.4, 1978.9, 1978.9}, sheet, kPcie5, "NVIDIA H200 data sheet, 2024",
       {"h200-sxm", "NVIDIA H200"}},
      {"gh200", "NVIDIA GH200 Grace Hopper 96GB", kHopper, 2023, 132, 96, 94.5, with_ecc,
       4000, {66.9, 494.7, 989.4, 989.4, 1978.9, 1978.9}, sheet, 450,
       "NVIDIA GH200 Grace Hopper Superchip data sheet, 2023 (NVLink-C2C: 900 GB/s both ways)",
       {"gh200-96gb", "NVIDIA GH200 480GB"}},
      {"b200", "NVIDIA B200 SXM", kLargeBlackwell, 2024, 148, 180, 178.3, with_ecc,
       8000, {80, 1100, 2250, 2250, 4500, 4500}, sheet, kPcie5, kBlackwellSheet, {"b200-sxm", "NVIDIA B200"}},
      {"gb200", "NVIDIA GB200 Grace Blackwell (one of two GPUs)", kLargeBlackwell, 2024, 152, 186, 184.3, with_ecc,
       8000, {80, 1250, 2500, 2500, 5000, 5000}, sheet, 225,
       "NVIDIA GB200 NVL72 data sheet, 2024; the link derived: half of the superchip's NVLink-C2C, 450 GB/s one way",
       {"NVIDIA GB200"}},
      // clang-format on
  };
  return rows;
}

// Returns true for modules on a board with NVLink between all of them.
bool is_on_nvlink_board(std::string_view id) {
  if (id.find("sxm") != std::string_view::npos) return true;
  return id == "h20" || id == "h200" || id == "gh200" || id == "b200" || id == "gb200";
}

// Returns the bridge that connects two cards of this kind.
std::string bridge_of(std::string_view id) {
  const auto is_one_of = [id](std::initializer_list<std::string_view> ids) {
    return std::ranges::find(ids, id) != ids.end();
  };
  if (is_one_of({"rtx2080ti", "titan-rtx", "quadro-rtx6000", "quadro-rtx8000"})) return "nvlink2-bridge";
  if (is_one_of({"rtx3090", "rtx3090ti", "a5000", "a6000", "a40"})) return "nvlink3-bridge";
  if (id == "a30") return "nvlink3-bridge-a30";
  if (is_one_of({"a100-40gb-pcie", "a100-80gb-pcie"})) return "nvlink3-bridge-a100";
  if (is_one_of({"h100-pcie", "h100-nvl"})) return "nvlink4-bridge";
  return "";
}

DeviceSpec device_of(const Row& row) {
  DeviceSpec device = device_of_card(kNvidia, row);
  device.architecture = row.generation.name;
  device.multiprocessors = row.sms;
  device.usable_bytes = gibibytes(row.usable);
  device.context_bytes = kContextBase + int64_t{row.sms} * row.generation.threads_per_sm * kStack;
  device.library_workspace_bytes = row.generation.workspace;
  if (row.host_link <= kPcie5) device.pcie_generation = row.generation.pcie;  // a superchip's host link is NVLink-C2C
  const bool nvlink = is_on_nvlink_board(row.id);
  device.peer_link =
      nvlink ? fmt::format("nvlink{}", row.generation.nvlink) : pcie_link(row.generation.pcie, row.host_link);
  device.bridge = bridge_of(row.id);
  device.sources = sources_of(kNvidia, row.sheet, fmt::format("{}: {}", row.sheet, source_of(row.rates_source)),
                              source_of(row.usable_source), nvlink ? row.sheet : kPciePeers);
  if (!device.bridge.empty())
    device.sources.emplace_back("bridge: data sheet of the card, which has a connector for NVLink");
  return device;
}

}  // namespace

std::vector<DeviceSpec> nvidia_devices() {
  return devices_of({&workstation_rows(), &server_rows()}, device_of);
}

}  // namespace plimsoll::catalogue
