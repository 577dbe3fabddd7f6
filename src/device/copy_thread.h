// Declares a copy engine that is a thread: it copies between two arenas of one machine, in order.
#pragma once

#include <condition_variable>
#include <deque>
#include <mutex>
#include <thread>

#include "device/copy_engine.h"

namespace plimsoll {

class CopyThread final : public CopyEngine {
 public:
  CopyThread() = default;  ///< the thread begins with the first copy
  ~CopyThread() override;
  CopyThread(const CopyThread&) = delete;
  CopyThread& operator=(const CopyThread&) = delete;

  int64_t start(std::byte* target, const std::byte* source, size_t bytes, std::function<void()> then = {},
                std::function<void()> first = {}) override;
  void wait(int64_t copy) override;
  void wait_on_host(int64_t copy) override { wait(copy); }
  void wait_for_all() override;

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
