// Declares the exchange between ranks that have a device each, and DeviceGroup, the interface to a library of
// collectives between devices such as NCCL.
#pragma once

#include <ATen/core/Tensor.h>
#include <torch/csrc/distributed/c10d/Work.hpp>

#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "collectives/exchange.h"
#include "collectives/store.h"

namespace plimsoll {

/// A c10d::Work whose wait() calls `done` until it returns true: it polls a device, so that a rank that fails ends the
/// wait. abort(), which any thread may call, makes wait() return false. wait() throws what `done` throws.
class PolledWork final : public c10d::Work {
 public:
  explicit PolledWork(std::function<bool()> done);

  /// Returns false after abort() or `timeout`.
  bool wait(std::chrono::milliseconds timeout) override;
  void abort() override;

 private:
  std::function<bool()> done_;
  std::atomic<bool> aborted_{false};
};

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
