#include "device/copy_engine.h"

#include <cstring>
#include <utility>

namespace plimsoll {

OrderedThread::~OrderedThread() {
  if (!thread_.joinable()) return;
  {
    const std::lock_guard lock(mutex_);
    ending_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

int64_t OrderedThread::start(std::function<void()> call) {
  if (!thread_.joinable()) thread_ = std::thread([this] { work(); });
  {
    const std::lock_guard lock(mutex_);
    queue_.push_back(std::move(call));
    ++started_;
  }
  changed_.notify_all();
  return started_;
}

void OrderedThread::wait(int64_t number) {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return done_ >= number; });
}

bool OrderedThread::idle() const {
  const std::lock_guard lock(mutex_);
  return done_ == started_;
}

void OrderedThread::work() {
  std::unique_lock lock(mutex_);
  while (true) {
    changed_.wait(lock, [&] { return ending_ || !queue_.empty(); });
    if (queue_.empty()) return;  // calls that were started are finished first
    {
      const std::function<void()> call = std::move(queue_.front());
      queue_.pop_front();
      lock.unlock();
      call();
    }
    lock.lock();
    ++done_;
    changed_.notify_all();
  }
}

int64_t CopyThread::start(std::byte* target, const std::byte* source, size_t bytes, std::function<void()> then,
                          std::function<void()> first) {
  return thread_.start([=, then = std::move(then), first = std::move(first)] {
    if (first) first();
    std::memcpy(target, source, bytes);
    if (then) then();
  });
}

}  // namespace plimsoll
