// Declares a thread for exchanges between ranks, which overlap with the ops of the executor.
#pragma once

#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>

#include "device/allocation_frame.h"
#include "device/backend.h"
#include "device/copy_engine.h"

namespace plimsoll {

/// A queue of exchanges that run one at a time, in the order in which they were started. After an exchange has failed,
/// later ones do not run: the ranks would mix them up.
class ExchangeLane {
 public:
  /// `line` is the backend's; null: ops are done when they return. `alignment` of scratch is in bytes. The thread
  /// starts with the first exchange; the destructor waits for all exchanges that were started.
  explicit ExchangeLane(std::unique_ptr<SideLine> line, int64_t alignment = 64)
      : line_(std::move(line)), alignment_(alignment) {}

  /// Starts an exchange: `call` runs on the lane's thread, with the caller's current exchange and place
  /// (ExchangeScope). Scratch is allocated in `landing`, of `landing_bytes` bytes. Returns the exchange's number.
  int64_t start(std::function<void()> call, std::byte* landing, int64_t landing_bytes);
  /// Returns when the exchange is done. Throws the exception of its call, or of an earlier exchange's call.
  void wait(int64_t number);
  /// Waits until all exchanges are done. Returns the exception of the first that failed, and forgets it; null: none
  /// failed.
  std::exception_ptr wait_for_all() noexcept;
  /// Returns true if all exchanges that were started are done.
  bool idle() const { return thread_.idle(); }
  /// Returns the largest number of bytes of scratch that an exchange allocated outside its landing range.
  int64_t out_of_arena_bytes() const;
  /// Returns the number of the last exchange that was started; 0: none was.
  int64_t started() const { return thread_.started(); }

 private:
  void run(const std::function<void()>& call, std::byte* landing, int64_t landing_bytes);

  const std::unique_ptr<SideLine> line_;
  const int64_t alignment_;
  AllocationFrame frame_;  // of the thread
  mutable std::mutex mutex_;
  std::exception_ptr failure_;
  int64_t out_of_arena_bytes_ = 0;
  OrderedThread thread_;  // ends before the rest
};

}  // namespace plimsoll
