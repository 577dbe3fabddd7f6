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
constexpr const char* kSustained =
    "github.com/IST-DASLab/llmq, src/utilities/sol.cpp, 2026-05-25: 32 Ki x 32 Ki, long enough for the power limit "
    "(torch-performance-test-data has 269 for short runs)";

struct Row {
  const char* id;
  double fp32, fp16, bf16;  ///< TFLOP/s, medians; 0: as the card's class
  int reports;
  const char* source;
};

const std::vector<Row>& measured_rows() {
  static const std::vector<Row> rows = {
      {"gtx1080ti", 10.1, 9.6, 0, 1, kSquares},
      {"rtx2080ti", 13.0, 58.6, 0, 1, kSquares},
      {"v100-sxm2-16gb", 14.1, 94.8, 0, 1, kSquares},
      {"v100-sxm2-32gb", 14.1, 89.4, 0, 2, kSquaresAndDevices},
      {"t4", 4.3, 41.9, 0, 4, kSquaresAndDevices},
      {"rtx3070", 13.7, 43.0, 41.4, 1, kSquares},
      {"rtx3080-10gb", 21.3, 63.8, 64.7, 2, kSquares},
      {"rtx3080ti", 24.6, 76.7, 77.4, 2, kSquares},
      {"rtx3090", 24.8, 75.6, 76.6, 3, kSquares},
      {"a2000", 5.5, 36.0, 37.3, 1, kSquares},
      {"a4000", 11.9, 65.4, 62.8, 1, kSquares},
      {"a6000", 23.9, 120.5, 123.3, 1, kSquares},
      {"a10", 14, 54, 56, 1, kDevices},
      {"a100-40gb-pcie", 17.6, 241.5, 243.5, 2, kBoth},
      {"a100-40gb-sxm", 18.1, 247.6, 246.3, 1, kSquares},
      {"a100-80gb-pcie", 0, 0, 252.9, 1, kBestShapes},
      {"a100-80gb-sxm", 19.1, 262.4, 266.5, 3, kBoth},
      {"rtx4060ti-16gb", 11.5, 42.7, 42.7, 1, kSquares},
      {"rtx4070ti-super", 30.8, 91.3, 91.1, 2, kSquares},
      {"rtx4090", 54.7, 165.9, 164.8, 9, kSquares},
      {"l4", 13.7, 66.9, 68.4, 2, kSquaresAndDevices},
      {"l40s", 46.9, 230, 230, 2, kSustained},
      {"rtx5060ti-16gb", 17.4, 47.9, 48.2, 1, kSquares},
      {"rtx5070", 24.1, 67.4, 67.2, 1, kSquares},
      {"rtx5070ti", 33.1, 98.7, 99.1, 1, kSquares},
      {"rtx5080", 33.6, 102.4, 102.9, 1, kSquares},
      {"rtx5090", 68.4, 229.5, 238.0, 4, kSquares},
      {"rtxpro6000", 77.1, 314.1, 413.7, 2, kSquares},
      {"h100-pcie", 37.0, 458, 495.9, 3, kSquaresAndDevices},
      {"h100-sxm", 52.0, 759.1, 794.5, 3, kBoth},
      {"h20", 32.0, 141.9, 142.1, 2, kSquares},
      {"h200", 51.3, 759.4, 790.3, 1, kSquares},
      {"gh200", 0, 0, 828.6, 1, kBestShapes},
      {"b200", 66.2, 1627.6, 1720.5, 2, kBoth},
      {"gb200", 0, 0, 1822, 1, kBestShapes},
      {"rx7900xtx", 26, 101, 104, 1, kDevices},
      {"mi300x", 0, 0, 668.4, 1, kBestShapes},
      {"mi325x", 0, 0, 784.9, 1, kBestShapes},
      {"mi355x", 0, 0, 1565, 1, kBestShapes},
      {"arc-a770", 15, 86, 90, 1, kDevices},
  };
  return rows;
}

// Shares of the data sheet's rates: medians of the rows above that are of a class.
struct Class {
  const char* name;
  double fp32, half;
};
constexpr Class kGeForce = {"GeForce cards from Turing on", 0.70, 1.08};
constexpr Class kModule = {"modules of data centers", 0.86, 0.80};
constexpr Class kServerCard = {"PCI Express cards with HBM", 0.81, 0.78};
constexpr Class kProfessional = {"professional cards before Ada, and Blackwell's", 0.62, 0.81};
constexpr Class kProfessionalAda = {"professional cards of Ada", 0.48, 0.60};
constexpr Class kPascalCard = {"cards of Pascal", 0.89, 0.85};
constexpr Class kOther = {"estimated: no measurement of its kind", 0.70, 0.70};

const Class& class_of(const DeviceSpec& device) {
  const auto named = [&](std::string_view part) { return device.name.find(part) != std::string::npos; };
  if (device.vendor != "nvidia") return kOther;
  if (device.architecture == "Pascal") return kPascalCard;
  if (named("GeForce")) return kGeForce;
  if (device.peer_link.starts_with("nvlink")) return kModule;
  if (device.architecture == "Hopper" || device.architecture == "Volta") return kServerCard;
  if (device.architecture == "Ampere" && device.memory_bandwidth >= 900 * kGiga) return kServerCard;
  return device.architecture == "Ada Lovelace" ? kProfessionalAda : kProfessional;
}

}  // namespace

void set_matmul_rates(DeviceSpec& device) {
  const Class& like = class_of(device);
  device.matmul_rates = {.fp32 = device.rates.fp32 * like.fp32,
                         .fp16 = device.rates.fp16 * like.half,
                         .bf16 = device.rates.bf16 * like.half};
  const auto row = std::ranges::find_if(measured_rows(), [&](const Row& each) { return device.id == each.id; });
  if (row == measured_rows().end()) {
    device.sources.push_back(
        fmt::format("matmuls: derived: {:g} of the data sheet's 16-bit rate, {}", like.half, like.name));
    return;
  }
  if (row->fp32 > 0) device.matmul_rates.fp32 = row->fp32 * kTera;
  if (row->bf16 > 0) device.matmul_rates.fp16 = device.matmul_rates.bf16 = row->bf16 * kTera;
  if (row->fp16 > 0) device.matmul_rates.fp16 = row->fp16 * kTera;
  device.matmul_reports = row->reports;
  device.sources.push_back(fmt::format(
      "matmuls: {:g} TFLOP/s in {}: {}{}", row->bf16 > 0 ? row->bf16 : row->fp16, row->bf16 > 0 ? "bf16" : "fp16",
      row->reports > 1 ? fmt::format("median of {} reports, ", row->reports) : "", row->source));
}

}  // namespace plimsoll::catalogue
