// Declares the interface to a library of collectives between devices, such as NCCL.
#pragma once

#include <ATen/core/Tensor.h>

#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "collectives/store.h"

namespace plimsoll {

/// A group of the devices of all ranks. Tensors are flat, contiguous and on the device of this rank. Functions that
/// move bytes put the work into the current stream of the calling thread and return immediately. They throw the
/// library's exceptions.
class DeviceGroup {
 public:
  virtual ~DeviceGroup() = default;

  /// Connects the ranks; returns when they are connected. May block for longer than `patience` if a rank is gone, so
  /// the caller runs it on a thread of its own.
  virtual void connect() = 0;

  /// Sends outgoing[r] to rank r and receives incoming[r] from it, for all r. The sender's tensor has as many bytes as
  /// the receiver's. Tensors without elements are not sent.
  virtual void send_and_receive(const std::vector<at::Tensor>& outgoing, const std::vector<at::Tensor>& incoming) = 0;
  /// Fills in the slices of the other ranks in `whole`, which has one equal slice for each rank. `own` is the slice of
  /// this rank.
  virtual void all_gather(const at::Tensor& whole, const at::Tensor& own) = 0;
  /// Copies the tensor of rank `root` to every rank.
  virtual void broadcast(const at::Tensor& tensor, int root) = 0;

  /// Marks the end of the work that is in the current stream.
  virtual void mark() = 0;
  /// Returns true if the device has done all work before the mark. Throws if a kernel or a connection has failed.
  virtual bool reached_mark() = 0;

  /// Ends all unfinished work; its results are lost. The group cannot be used afterwards. May block.
  virtual void abort() noexcept = 0;
};

/// Settings of a DeviceGroup.
struct DeviceGroupOptions {
  int rank = 0, size = 1;
  std::chrono::milliseconds patience = std::chrono::seconds(60);  ///< longest wait for the store while ranks connect
};

/// Makes a group of the ranks that share `store`.
using DeviceGroupFactory =
    std::function<std::shared_ptr<DeviceGroup>(const StorePointer& store, const DeviceGroupOptions& options)>;

/// Registers the factory for groups of `device` ("cuda"). The library of the device's backend calls it when it is
/// loaded.
void set_device_group_factory(const std::string& device, DeviceGroupFactory factory);

/// Makes a group for `device` ("cuda"); loads the backend's library. Throws UserError (failure) if the device is
/// missing or this build has no collectives for it.
std::shared_ptr<DeviceGroup> make_device_group(const std::string& device, const StorePointer& store,
                                               const DeviceGroupOptions& options);

}  // namespace plimsoll
