// Declares the helpers that the vendors' tables share, the devices that share a name, and the cost of ops on a
// catalogue device. Each vendor's devices are in a source of their own.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>
#include <vector>

#include "plimsoll/bytes.h"
#include "plimsoll/cost_model.h"
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

/// The figures and sources that all devices of a vendor share.
struct Vendor {
  const char* name;
  const char* device;  ///< kind of device as PyTorch names it
  double launch_seconds;
  const char* context_source;
  const char* workspace_source;
  const char* launch_source;
};

constexpr const char* kPciePeers = "derived: PCI Express, the host link of the card";

/// Returns a device with the fields that follow from its vendor and year.
DeviceSpec device_of_vendor(const Vendor& vendor, int year);

/// Returns the sources of a card, which all figures of `sheet` have. `usable` includes the name of the figure.
std::vector<std::string> sources_of(const Vendor& vendor, const char* sheet, const std::string& rates,
                                    const char* usable, const char* peer_link);

/// Returns a device with the fields that follow from its vendor and from the columns that all tables of cards have, in
/// the units of the tables.
template <typename Row>
DeviceSpec device_of_card(const Vendor& vendor, const Row& row) {
  DeviceSpec device = device_of_vendor(vendor, row.year);
  device.id = row.id;
  device.name = row.name;
  device.aliases = row.aliases;
  device.memory_bytes = gibibytes(row.memory);
  device.memory_bandwidth = row.bandwidth * kGiga;
  device.rates = tera(row.rates);
  device.host_link = row.host_link * kGiga;
  return device;
}

/// Returns a device for each row of the tables, in order.
template <typename Row>
std::vector<DeviceSpec> devices_of(std::initializer_list<const std::vector<Row>*> tables,
                                   DeviceSpec (*device_of)(const Row& row)) {
  std::vector<DeviceSpec> devices;
  for (const std::vector<Row>* rows : tables)
    for (const Row& row : *rows) devices.push_back(device_of(row));
  return devices;
}

/// Sets the rates that matmuls reach, and adds their source: the median of published measurements of the card, or the
/// data sheet's rates times the share that cards of its class reach.
void set_matmul_rates(DeviceSpec& device);

/// Returns the devices that an alias of `device`, as the tables write it, may mean, in the catalogue's order. "a100"
/// and "m2" mean every size and form; "a100-80gb" means those of 80 GB. Returns only `device` if all of these are equal
/// for a plan.
std::vector<const DeviceSpec*> variants_called(const DeviceSpec& device, std::string_view alias);

}  // namespace plimsoll::catalogue

namespace plimsoll {

/// Shares that kernels of libtorch and Plimsoll reach on sizes that fill a device. docs/predictions.md has the origin
/// of each.
struct KernelEfficiency {
  double convolution = 0.50;          ///< share of the data sheet's rate
  double attention = 0.90;            ///< flash kernels, forward: share of the rate of matmuls
  double attention_of_unit = 2.4e12;  ///< at most, FLOP/s of a multiprocessor of a data-center chip from Hopper on
  double attention_backward = 0.68;   ///< deterministic: multiple of the forward's rate
  double bandwidth = 0.80;            ///< share of the data sheet's bandwidth
  double link = 0.80;                 ///< share of the host link's nominal rate: PCI Express 3.0, other links
  double link4 = 0.83;                ///< the same, PCI Express 4.0
  double link4_duplex = 0.58;         ///< each way while both directions copy
  double link5 = 0.89;                ///< the same, PCI Express 5.0
  double link5_duplex = 0.80;         ///< each way while both directions copy
};

/// Returns the cost of ops on a catalogue device: its data sheet's rates, reduced to the shares that kernels reach.
CostModel cost_model_of(const DeviceSpec& device, const KernelEfficiency& efficiency = {});

}  // namespace plimsoll
