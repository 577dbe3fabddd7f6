// Declares the exchange between ranks that have a device each. A DeviceGroup exchanges tensors of the device, an
// exchange of the host everything else.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <torch/csrc/distributed/c10d/Work.hpp>

#include "collectives/device_group.h"
#include "collectives/exchange.h"

namespace plimsoll {

/// The parts of a DeviceExchange.
struct DeviceExchangeParts {
  std::unique_ptr<Exchange> host;       ///< tensors of the host, texts, notes and failures of ranks
  std::shared_ptr<DeviceGroup> group;   ///< not connected yet
  c10::DeviceType device = c10::kCUDA;  ///< the device whose tensors the group exchanges
  /// Waits for work. Throws UserError (failure) that names the rank if another one fails during the wait.
  std::function<void(const c10::intrusive_ptr<c10d::Work>&)> wait;
  /// Throws UserError (failure) that names the rank which is the reason for a problem of the group.
  std::function<void(const std::string& problem)> throw_broken;
  std::chrono::milliseconds patience = std::chrono::seconds(60);  ///< for the connections
};

/// Makes the exchange and connects the group; every rank calls it. The tensors of a call decide if the device or the
/// host exchanges them, and are alike on all ranks; checkpoints and evaluations exchange tensors of the host. Sums have
/// the bits of SharedMemoryExchange: each part of a sum is sent to the rank that owns the slice, is received in memory
/// of the device's allocator (ops::device_landing_bytes()) and is added there in rank order. A call returns when the
/// device has done its work. After an error the group is aborted. Throws UserError (failure) if the ranks cannot
/// connect.
std::unique_ptr<Exchange> make_device_exchange(DeviceExchangeParts parts);

}  // namespace plimsoll
