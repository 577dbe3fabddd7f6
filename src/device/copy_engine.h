// Declares copies between a device's arena and the host's or the disk's, which overlap with the ops that run, and a
// copy engine that is a thread.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>

namespace plimsoll {

/// An engine that begins copies in the order in which they are started. Its destructor waits for copies in flight.
class CopyEngine {
 public:
  virtual ~CopyEngine() = default;

  /// Begins a copy, after all ops that were run so far. The ranges must not overlap. Returns the copy's number. `first`
  /// is called before the bytes are copied; `then` after that, and before the copy counts as done. Both are called by
  /// any thread and must not throw.
  virtual int64_t start(std::byte* target, const std::byte* source, size_t bytes, std::function<void()> then = {},
                        std::function<void()> first = {}) = 0;

  /// Orders ops run from now on after that copy, and after all earlier copies in its direction.
  virtual void wait(int64_t copy) = 0;

  /// Returns when that copy and all before it are done: the host may read their targets and write to their sources.
  virtual void wait_on_host(int64_t copy) = 0;
  virtual void wait_for_all() = 0;
};

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

/// A copy engine that is such a thread. It copies between two arenas of one machine.
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
