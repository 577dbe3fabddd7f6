#include "device/copy_thread.h"

#include <cstring>
#include <utility>

namespace plimsoll {

CopyThread::~CopyThread() {
  if (!thread_.joinable()) return;
  {
    std::lock_guard lock(mutex_);
    ending_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

int64_t CopyThread::start(std::byte* target, const std::byte* source, size_t bytes, std::function<void()> then,
                          std::function<void()> first) {
  if (!thread_.joinable()) thread_ = std::thread([this] { work(); });
  int64_t number;
  {
    std::lock_guard lock(mutex_);
    queue_.push_back({target, source, bytes, std::move(then), std::move(first)});
    number = ++started_;
  }
  changed_.notify_all();
  return number;
}

void CopyThread::wait(int64_t copy) {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return done_ >= copy; });
}

void CopyThread::wait_for_all() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return done_ == started_; });
}

void CopyThread::work() {
  std::unique_lock lock(mutex_);
  while (true) {
    changed_.wait(lock, [&] { return ending_ || !queue_.empty(); });
    if (queue_.empty()) return;  // copies that were started are finished first
    const Copy copy = std::move(queue_.front());
    queue_.pop_front();
    lock.unlock();
    if (copy.first) copy.first();
    std::memcpy(copy.target, copy.source, copy.bytes);
    if (copy.then) copy.then();
    lock.lock();
    ++done_;
    changed_.notify_all();
  }
}

}  // namespace plimsoll
