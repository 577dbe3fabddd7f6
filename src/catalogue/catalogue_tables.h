// Declares the helpers that the vendors' tables share. Each vendor's devices are in a source of their own.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "plimsoll/bytes.h"
#include "plimsoll/devices.h"

namespace plimsoll::catalogue {

std::vector<DeviceSpec> nvidia_devices();
std::vector<DeviceSpec> amd_devices();
std::vector<DeviceSpec> apple_devices();
std::vector<DeviceSpec> intel_devices();

/// Factor from TFLOP/s, the unit of the tables, to FLOP/s.
constexpr double kTera = 1e12;
/// Factor from GB/s, the unit of the tables, to bytes per second.
constexpr double kGiga = 1e9;

/// Returns the GB/s one way of a PCI Express link (PCI Express base specifications 3.0 to 5.0): 8 GT/s for each lane in
/// generation 3, twice as much in each later one, 128 of 130 bits are data.
constexpr double pcie(int generation, int lanes) {
  double lane = 8.0 * 128 / 130 / 8;
  for (int i = 3; i < generation; ++i) lane *= 2;
  return lane * lanes;
}

/// Returns the id of the PCI Express link of this generation that has `gigabytes` GB/s one way.
std::string pcie_link(int generation, double gigabytes);

constexpr int64_t gibibytes(double count) {
  return static_cast<int64_t>(count * static_cast<double>(GiB));
}

/// Converts TFLOP/s to FLOP/s.
constexpr DenseRates tera(const DenseRates& rates) {
  return {rates.fp32 * kTera, rates.tf32 * kTera, rates.fp16 * kTera,
          rates.bf16 * kTera, rates.fp8 * kTera,  rates.int8 * kTera};
}

}  // namespace plimsoll::catalogue
