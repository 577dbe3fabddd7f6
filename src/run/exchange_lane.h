// Exchanges between ranks on a thread of their own, beside the ops of the executor.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>

#include "device/backend.h"

namespace plimsoll {

/// Makes exchanges one at a time, in the order in which they were started. After one has failed those behind it are not
/// made: the ranks would mix them up.
class ExchangeLane {
 public:
  /// `line`: of the backend; null where ops are done when they return. `alignment`: of scratch, bytes. The thread
  /// begins with the first exchange.
  explicit ExchangeLane(std::unique_ptr<SideLine> line, int64_t alignment = 64)
      : line_(std::move(line)), alignment_(alignment) {}
  /// Waits for all that were started.
  ~ExchangeLane();
  ExchangeLane(const ExchangeLane&) = delete;
  ExchangeLane& operator=(const ExchangeLane&) = delete;

  /// Starts an exchange: `call` runs on the lane's thread, with the exchange and the place of the caller's. Scratch
  /// comes from `landing`, `landing_bytes` of them. Returns its number.
  int64_t start(std::function<void()> call, std::byte* landing, int64_t landing_bytes);
  /// Returns when the exchange is done. Throws what its call threw, or the call of one before it.
  void wait(int64_t number);
  /// Waits until all are done. Returns what the first that failed threw, which is forgotten; null: none failed.
  std::exception_ptr wait_for_all() noexcept;
  /// Returns true if all exchanges that were started are done.
  bool idle() const;
  /// Returns the most scratch that an exchange took elsewhere than in its landing place, bytes.
  int64_t outside_bytes() const;
  /// Returns the number of the last that was started; 0: none was.
  int64_t started() const { return started_; }

 private:
  struct Call {
    std::function<void()> run;
    std::byte* landing;
    int64_t landing_bytes;
  };
  void work();

  const std::unique_ptr<SideLine> line_;
  const int64_t alignment_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Call> queue_;
  int64_t started_ = 0;  // written by the executor's thread only
  int64_t done_ = 0;
  std::exception_ptr failure_;
  int64_t outside_bytes_ = 0;
  bool ending_ = false;
  std::thread thread_;
};

}  // namespace plimsoll
