// Lists the rates that matmuls of libtorch reach on GPUs, from published measurements of matmuls: none of a training.
#include <fmt/format.h>

#include <algorithm>
#include <string_view>
#include <vector>

#include "catalogue/catalogue.h"

namespace plimsoll::catalogue {
namespace {

// Published tables of matmuls of libtorch.
constexpr const char* kSquares = "github.com/zzc0721/torch-performance-test-data, database.md, 2026-01-12";
constexpr const char* kBestShapes = "github.com/stas00/ml-engineering, compute/accelerator, 2026-08-22 (MAMF)";
constexpr const char* kBoth = "torch-performance-test-data, 2026-01-12, and ml-engineering's MAMF, 2026-08-22";
constexpr const char* kDevices = "github.com/chsasank/device-benchmarks, 2025-04-15";
constexpr const char* kSquaresAndDevices = "torch-performance-test-data, 2026-01-12, and device-benchmarks, 2025-04-15";
constexpr const char* kSquaresAndLlmq =
    "torch-performance-test-data, 2026-01-12 (264 in fp16, 269 in bf16), and github.com/IST-DASLab/llmq, "
    "src/utilities/sol.cpp, 2026-05-25: a matmul of 32k x 32k, \"about 230 TFlop/s on our machine\"";
// Reports of the same chip in another product. An A800 and an H800 have slower NVLink, and are otherwise equal.
constexpr const char* kWithSmallerV100 =
    "torch-performance-test-data, 2026-01-12 (one of 16 GB), and device-benchmarks, 2025-04-15";
constexpr const char* kWithA800 =
    "torch-performance-test-data, 2026-01-12 (one of an A800), and ml-engineering's MAMF, 2026-08-22";
constexpr const char* kWithH800 =
    "torch-performance-test-data, 2026-01-12 (one of an H800), and device-benchmarks, 2025-04-15";
constexpr const char* kOf900Watts =
    "github.com/stas00/ml-engineering, compute/accelerator, 2026-08-22 (MAMF), of the version with 900 W and 141 GiB";

struct Row {
  const char* id;
  double fp32, fp16, bf16;  ///< TFLOP/s, medians; 0: as the card's class
  int reports;
  const char* source;
};

const std::vector<Row>& measured_rows() {
  static const std::vector<Row> rows = {
      {"gtx1080ti", 10.1, 9.6, 5.4, 1, kSquares},
      {"gtx1660ti", 5.2, 0.61, 2.8, 1, kSquares},
      {"rtx2080ti", 13.0, 58.6, 7.3, 1, kSquares},
      {"v100-sxm2-16gb", 14.1, 94.8, 10.3, 1, kSquares},
      {"v100-sxm2-32gb", 13.5, 89.4, 9.9, 2, kWithSmallerV100},
      {"t4", 4.3, 41.9, 2.3, 4, kSquaresAndDevices},
      {"rtx3060-12gb", 7.4, 26, 26, 1, kDevices},
      {"rtx3070", 13.7, 43.0, 41.4, 1, kSquares},
      {"rtx3080-10gb", 21.1, 63.5, 64.7, 3, kSquares},
      {"rtx3080ti", 24.6, 76.7, 77.4, 2, kSquares},
      {"rtx3090", 24.8, 75.6, 76.6, 3, kSquares},
      {"a2000", 5.5, 36.0, 37.3, 1, kSquares},
      {"a4000", 11.9, 65.4, 62.8, 1, kSquares},
      {"a6000", 23.9, 120.5, 123.3, 1, kSquares},
      {"a10", 14, 54, 56, 1, kDevices},
      {"a100-40gb-pcie", 17.6, 241.5, 234.1, 1, kSquares},
      {"a100-40gb-sxm", 18.1, 247.6, 246.3, 1, kSquares},
      {"a100-80gb-pcie", 0, 0, 252.9, 1, kBestShapes},
      {"a100-80gb-sxm", 19.1, 262.4, 266.5, 3, kWithA800},
      // The larger of its reports in fp16, 59.4, is above the card's rate with sums in fp32, and was left out.
      {"rtx4060ti-16gb", 11.8, 42, 44.3, 2, kSquaresAndDevices},
      {"rtx4070ti-super", 31, 91, 89.4, 3, kSquaresAndDevices},
      {"rtx4090", 54.7, 166.6, 165.3, 10, kSquaresAndDevices},
      {"l4", 13.7, 66.9, 68.4, 2, kSquaresAndDevices},
      {"l40s", 46.9, 264, 249.6, 2, kSquaresAndLlmq},
      {"rtx5060ti-16gb", 17.4, 47.9, 48.2, 1, kSquares},
      {"rtx5070", 24.1, 67.4, 67.2, 1, kSquares},
      {"rtx5070ti", 32.5, 98.4, 98.5, 2, kSquaresAndDevices},
      {"rtx5080", 33.6, 102.4, 102.9, 1, kSquares},
      {"rtx5090", 68.4, 229.5, 238.0, 4, kSquares},
      {"rtxpro6000", 77.1, 314.1, 413.7, 2, kSquares},
      {"h100-pcie", 37.8, 458, 495.9, 3, kWithH800},
      {"h100-sxm", 52.0, 759.1, 794.5, 3, kBoth},
      {"h20", 32.0, 141.9, 142.1, 2, kSquares},
      {"h200", 51.3, 759.4, 790.3, 1, kSquares},
      {"gh200", 0, 0, 828.6, 1, kOf900Watts},
      {"b200", 66.2, 1627.6, 1720.5, 2, kBoth},
      {"gb200", 0, 0, 1822, 1, kBestShapes},
      {"rx7900xt", 23.0, 81.8, 83.2, 1, kSquares},
      {"rx7900xtx", 25.7, 97.5, 93.7, 5, kSquaresAndDevices},
      {"mi300x", 0, 0, 668.4, 1, kBestShapes},
      {"mi325x", 0, 0, 784.9, 1, kBestShapes},
      {"mi355x", 0, 0, 1565, 1, kBestShapes},
      {"arc-a770", 15, 86, 90, 1, kDevices},
      {"max1100", 21, 140, 140, 1, kDevices},
  };
  return rows;
}

// Shares of the data sheet's rates: medians of the rows above that are of a class.
struct Class {
  const char* name;
  double fp32, half;
};
constexpr Class kGeForceTuring = {"GeForce cards of Turing", 0.97, 1.09};
constexpr Class kGeForceAmpere = {"GeForce cards of Ampere", 0.70, 1.08};
constexpr Class kGeForceAda = {"GeForce cards of Ada", 0.66, 1.00};
constexpr Class kGeForceBlackwell = {"GeForce cards of Blackwell", 0.73, 1.09};
constexpr Class kModule = {"modules of data centers", 0.85, 0.79};
constexpr Class kServerCard = {"PCI Express cards with HBM", 0.82, 0.75};
constexpr Class kProfessional = {"professional cards before Ada, and Blackwell's", 0.62, 0.81};
constexpr Class kProfessionalAda = {"professional cards of Ada", 0.48, 0.63};
constexpr Class kPascalCard = {"cards of Pascal", 0.89, 0.85};
constexpr Class kOther = {"estimated: no measurement of its kind", 0.70, 0.70};

const Class& class_of(const DeviceSpec& device) {
  const auto named = [&](std::string_view part) { return device.name.find(part) != std::string::npos; };
  if (device.vendor != "nvidia") return kOther;
  if (device.architecture == "Pascal") return kPascalCard;
  // The data sheet of an L40 has half rate for sums in float32, as GeForce cards.
  if (named("GeForce") || device.id == "l40")
    return device.architecture == "Turing"         ? kGeForceTuring
           : device.architecture == "Ampere"       ? kGeForceAmpere
           : device.architecture == "Ada Lovelace" ? kGeForceAda
                                                   : kGeForceBlackwell;
  if (device.peer_link.starts_with("nvlink")) return kModule;
  if (device.architecture == "Hopper" || device.architecture == "Volta") return kServerCard;
  if (device.architecture == "Ampere" && device.memory_bandwidth >= 900 * kGiga) return kServerCard;
  return device.architecture == "Ada Lovelace" ? kProfessionalAda : kProfessional;
}

// Returns the rate of bf16 as a share of float32's on a card without units for it, which converts the operands: medians
// of the cards of kSquares. Not known of other vendors: 1.
double share_without_bf16(const DeviceSpec& device) {
  return device.architecture == "Turing"   ? 0.56
         : device.architecture == "Volta"  ? 0.73
         : device.architecture == "Pascal" ? 0.53
                                           : 1;
}

}  // namespace

void set_matmul_rates(DeviceSpec& device) {
  const Class& like = class_of(device);
  device.matmul_rates = {.fp32 = device.rates.fp32 * like.fp32,
                         .fp16 = device.rates.fp16 * like.half,
                         .bf16 = device.rates.bf16 * like.half};
  const bool has_bf16 = device.rates.bf16 > 0;
  const auto row = std::ranges::find_if(measured_rows(), [&](const Row& each) { return device.id == each.id; });
  const bool measured = row != measured_rows().end();
  if (measured) {
    if (row->fp32 > 0) device.matmul_rates.fp32 = row->fp32 * kTera;
    if (row->bf16 > 0) device.matmul_rates.fp16 = device.matmul_rates.bf16 = row->bf16 * kTera;
    if (row->fp16 > 0) device.matmul_rates.fp16 = row->fp16 * kTera;
    device.matmul_reports = row->reports;
  }
  if (!has_bf16 && !(measured && row->bf16 > 0))
    device.matmul_rates.bf16 = device.matmul_rates.fp32 * share_without_bf16(device);
  device.sources.push_back(
      measured ? fmt::format("matmuls: {:g} TFLOP/s in {}: {}{}", has_bf16 ? row->bf16 : row->fp16,
                             has_bf16 ? "bf16" : "fp16",
                             row->reports > 1 ? fmt::format("median of {} reports, ", row->reports) : "", row->source)
               : fmt::format("matmuls: derived: {:g} of the data sheet's 16-bit rate, {}", like.half, like.name));
}

}  // namespace plimsoll::catalogue
