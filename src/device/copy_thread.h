// Copies between two arenas of one machine on a thread of its own, in order: what a device's copy engine does.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>

namespace plimsoll {

class CopyThread {
 public:
  CopyThread() = default;  ///< the thread begins with the first copy
  ~CopyThread();           ///< waits for all copies
  CopyThread(const CopyThread&) = delete;
  CopyThread& operator=(const CopyThread&) = delete;

  /// Begins to copy, after those begun before. The ranges must not overlap. Gives the copy's number, for wait().
  /// `then`, which must not throw, is called by the thread when it is copied, before the copy counts as done; `first`,
  /// likewise, before it is copied.
  int64_t start(std::byte* target, const std::byte* source, size_t bytes, std::function<void()> then = {},
                std::function<void()> first = {});
  /// Returns when that copy, and all before it, are done.
  void wait(int64_t copy);
  void wait_for_all();

 private:
  struct Copy {
    std::byte* target;
    const std::byte* source;
    size_t bytes;
    std::function<void()> then, first;
  };
  void work();

  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Copy> queue_;
  int64_t started_ = 0, done_ = 0;
  bool ending_ = false;
  std::thread thread_;
};

}  // namespace plimsoll
