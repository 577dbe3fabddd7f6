// Declares a group of devices for tests: ranks are threads of this process, tensors are on the CPU.
#pragma once

#include <ATen/ATen.h>

#include <condition_variable>
#include <mutex>
#include <stdexcept>
#include <vector>

#include "collectives/device_exchange.h"

namespace plimsoll {

/// A meeting point of the ranks of fake groups. Each call of a rank waits for the same call of all others, or for
/// abort().
class FakeDevices {
 public:
  explicit FakeDevices(int size) : calls_(static_cast<size_t>(size)) {}

  struct Call {
    std::vector<at::Tensor> outgoing, incoming;
  };
  /// Returns false if the rank was aborted meanwhile.
  bool exchange(int rank, Call call, const bool& aborted) {
    std::unique_lock lock(mutex_);
    calls_[static_cast<size_t>(rank)] = std::move(call);
    if (!meet(lock, aborted)) return false;
    const Call& own = calls_[static_cast<size_t>(rank)];
    for (size_t r = 0; r < calls_.size(); ++r) {
      const at::Tensor& from = calls_[r].outgoing[static_cast<size_t>(rank)];
      const at::Tensor& to = own.incoming[r];
      if (to.numel() != from.numel() || to.scalar_type() != from.scalar_type())
        throw std::runtime_error("a rank receives another size or dtype than is sent");
      if (to.numel() > 0 && to.data_ptr() != from.data_ptr()) to.copy_(from);
    }
    return meet(lock, aborted);
  }
  void wake() {
    const std::lock_guard lock(mutex_);
    changed_.notify_all();
  }
  std::mutex& mutex() { return mutex_; }

 private:
  bool meet(std::unique_lock<std::mutex>& lock, const bool& aborted) {
    const int64_t round = round_;
    if (++come_ == std::ssize(calls_)) {
      come_ = 0;
      ++round_;
      changed_.notify_all();
    }
    changed_.wait(lock, [&] { return round_ != round || aborted; });
    return round_ != round;
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<Call> calls_;
  int64_t come_ = 0, round_ = 0;
};

/// A rank's group. Its stream, a thread for each mark, does the work.
class FakeDeviceGroup final : public DeviceGroup {
 public:
  FakeDeviceGroup(std::shared_ptr<FakeDevices> devices, int rank, int size)
      : devices_(std::move(devices)), rank_(rank), size_(static_cast<size_t>(size)) {}

  std::string refusal;          ///< message of the exception of the next call; empty: none
  bool never_reached = false;   ///< the mark that is not reached until abort()
  std::string failure_at_mark;  ///< message of the exception of reached_mark()
  int64_t largest_part = 0;     ///< bytes received from one rank in one call
  int64_t rounds = 0;           ///< number of calls of send_and_receive
  bool connected = false;

  void connect() override {
    refuse();
    connected = true;
  }
  void send_and_receive(const std::vector<at::Tensor>& outgoing, const std::vector<at::Tensor>& incoming) override {
    refuse();
    ++rounds;
    for (const at::Tensor& each : incoming) largest_part = std::max(largest_part, static_cast<int64_t>(each.nbytes()));
    exchange({outgoing, incoming});
  }
  void all_gather(const at::Tensor& whole, const at::Tensor& own) override {
    refuse();
    FakeDevices::Call call;
    for (size_t r = 0; r < size_; ++r) {
      call.outgoing.push_back(own);
      call.incoming.push_back(whole.narrow(0, static_cast<int64_t>(r) * own.numel(), own.numel()));
    }
    exchange(call);
  }
  void broadcast(const at::Tensor& tensor, int root) override {
    refuse();
    const at::Tensor none = tensor.narrow(0, 0, 0);
    FakeDevices::Call call{std::vector(size_, rank_ == root ? tensor : none), std::vector(size_, none)};
    call.incoming[static_cast<size_t>(root)] = tensor;
    exchange(call);
  }
  void mark() override {}
  bool reached_mark() override {
    if (!failure_at_mark.empty()) throw std::runtime_error(failure_at_mark);
    return !never_reached || aborted();
  }
  void abort() noexcept override {
    {
      const std::lock_guard lock(devices_->mutex());
      aborted_ = true;
    }
    devices_->wake();
  }
  bool aborted() const {
    const std::lock_guard lock(devices_->mutex());
    return aborted_;
  }

 private:
  void refuse() const {
    if (!refusal.empty()) throw std::runtime_error(refusal);
  }
  void exchange(FakeDevices::Call call) {
    if (!devices_->exchange(rank_, std::move(call), aborted_)) throw std::runtime_error("aborted");
  }

  std::shared_ptr<FakeDevices> devices_;
  int rank_;
  size_t size_;
  bool aborted_ = false;
};

}  // namespace plimsoll
