// Selects the device of each rank of a host.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace plimsoll::cli {

/// Returns the value of CUDA_VISIBLE_DEVICES (HIP_VISIBLE_DEVICES) that leaves a rank only its own device: item
/// `local_rank` of `visible`, or `local_rank` itself if `visible` is empty. Returns nullopt if the launcher has done so
/// already: it `binds` devices to ranks and one is visible. `present`: number of devices of the machine; 0: not known.
/// Throws UserError (usage) if there are fewer devices than ranks on this host.
std::optional<std::string> visible_device_of(int local_rank, int local_size, const std::string& visible,
                                             int64_t present, bool binds);

/// Leaves this process only the device of its rank. Call it before the backend is opened. Throws UserError as
/// visible_device_of(); "mps" has one device.
void choose_device_of_rank(const std::string& device, int local_rank, int local_size);

/// Returns true if the number of devices of this machine is known without a runtime of the device.
bool lists_devices(const std::string& device);

/// Throws UserError (usage) if this machine has fewer devices than `count`. The CPU counts as 64 devices, or four for
/// each core if that is more.
void require_devices(const std::string& device, int count);

}  // namespace plimsoll::cli
