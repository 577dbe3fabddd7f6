// Declares the measured rates of a GPU of this machine, which plans use instead of those of the catalogue.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "device/backend.h"
#include "plimsoll/cost_model.h"
#include "plimsoll/machine.h"

namespace plimsoll {

/// Seconds that one run of a measured kernel takes at the rates that were known before, so that launches do not count.
constexpr double kDeviceKernelSeconds = 4e-3;

/// Measured rates of a device.
struct DeviceRates {
  CostModel model;                   ///< the known rates, with those that were measured in their place
  std::vector<std::string> refused;  ///< kernels that the device refused, each with the reason; their rates are known
                                     ///< ones
  bool short_of_memory = false;      ///< one was refused for want of memory, which another program may have had
};

/// Measures the device with kernels of libtorch and of Plimsoll, each for `kernel_seconds` at the rates of `known`:
/// matmuls, attention, loss head, pointwise ops, norms, random numbers, updates, the time of a launch, and copies from
/// host memory. Takes a few seconds, and at most an eighth of the free memory. Operands of matmuls are random: with
/// zeros or ones a device takes less power and is faster than in training. Throws UserError (failure), which names the
/// kernel, if the device has a fault after it.
DeviceRates measure_device_rates(Backend& backend, CostModel known, double kernel_seconds = kDeviceKernelSeconds);

/// Returns the file of the rates of a device; empty if there is no folder for measurements.
std::filesystem::path device_rates_file(const std::string& device_name);

/// Returns `known` with the stored rates of a device; nullopt if none were measured on this machine with this
/// libtorch.
std::optional<DeviceRates> stored_device_rates(const std::string& device_name, CostModel known);
/// Returns whether the rates could be stored.
bool store_device_rates(const std::string& device_name, const DeviceRates& rates);

/// Trains two linear layers on the device for a few steps, and returns how it ran their ops. Throws UserError if the
/// device fails.
DeviceWork try_device(const std::string& device);

/// Loads the backends of all devices. libtorch lists its devices at its first use, and has none whose library is loaded
/// later.
void open_devices();

/// Returns the reports of the devices other than the CPU that this machine has. They are measured if their rates are
/// not stored, or if `again`. With `nvidia_driver` an NVIDIA device that cannot be used has a report of the reason.
std::vector<DeviceReport> inspect_devices(bool again, bool nvidia_driver);

}  // namespace plimsoll
