// Declares a thread that runs calls one at a time, and a copy engine on it: it copies between two arenas of one
// machine.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>

#include "device/copy_engine.h"

namespace plimsoll {

/// A thread that runs calls in the order in which they were started.
class OrderedThread {
 public:
  OrderedThread() = default;  ///< the thread begins with the first call
  /// Waits for all calls that were started.
  ~OrderedThread();
  OrderedThread(const OrderedThread&) = delete;
  OrderedThread& operator=(const OrderedThread&) = delete;

  /// Starts a call, which must not throw, and returns its number. Only one thread starts calls.
  int64_t start(std::function<void()> call);
  /// Returns when the call is done.
  void wait(int64_t number);
  void wait_for_all() { wait(started_); }
  /// Returns true if all calls that were started are done.
  bool idle() const;
  /// Returns the number of the last call that was started; 0: none was.
  int64_t started() const { return started_; }

 private:
  void work();

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::function<void()>> queue_;
  int64_t started_ = 0, done_ = 0;
  bool ending_ = false;
  std::thread thread_;
};

/// A copy engine that is such a thread.
class CopyThread final : public CopyEngine {
 public:
  int64_t start(std::byte* target, const std::byte* source, size_t bytes, std::function<void()> then = {},
                std::function<void()> first = {}) override;
  void wait(int64_t copy) override { thread_.wait(copy); }
  void wait_on_host(int64_t copy) override { wait(copy); }
  void wait_for_all() override { thread_.wait_for_all(); }

 private:
  OrderedThread thread_;
};

}  // namespace plimsoll
