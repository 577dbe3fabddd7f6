#include "run/executor/exchange_lane.h"

#include <ATen/core/LegacyTypeDispatch.h>

#include <algorithm>
#include <string>
#include <utility>

#include "collectives/exchange.h"
#include "plimsoll/error.h"

namespace plimsoll {

ExchangeLane::~ExchangeLane() {
  if (!thread_.joinable()) return;
  {
    const std::lock_guard lock(mutex_);
    ending_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

int64_t ExchangeLane::start(std::function<void()> call, std::byte* landing, int64_t landing_bytes) {
  if (!thread_.joinable()) thread_ = std::thread([this] { work(); });
  if (line_) line_->follow();
  auto run = [call = std::move(call), exchange = current_exchange(), place = current_place()] {
    const ExchangeScope scope(exchange, place);
    call();
  };
  int64_t number = 0;
  {
    const std::lock_guard lock(mutex_);
    queue_.push_back({std::move(run), landing, landing_bytes});
    number = ++started_;
  }
  changed_.notify_all();
  return number;
}

void ExchangeLane::wait(int64_t number) {
  const ExchangeTimer timer;
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return done_ >= number; });
  if (failure_) std::rethrow_exception(failure_);
}

std::exception_ptr ExchangeLane::wait_for_all() noexcept {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return done_ == started_; });
  return std::exchange(failure_, nullptr);
}

int64_t ExchangeLane::out_of_arena_bytes() const {
  const std::lock_guard lock(mutex_);
  return out_of_arena_bytes_;
}

bool ExchangeLane::idle() const {
  const std::lock_guard lock(mutex_);
  return done_ == started_;
}

void ExchangeLane::work() {
  const at::AutoDispatchBelowADInplaceOrView below_autograd;
  AllocationFrame frame;
  std::unique_lock lock(mutex_);
  while (true) {
    changed_.wait(lock, [&] { return ending_ || !queue_.empty(); });
    if (queue_.empty()) return;  // started exchanges are finished first
    const Call call = std::move(queue_.front());
    queue_.pop_front();
    const bool made = !failure_;
    lock.unlock();
    std::exception_ptr thrown;
    int64_t out_of_arena = 0;
    try {
      if (line_) {
        frame.begin({}, call.landing, call.landing_bytes, alignment_);
        // An exchange that does not run still takes its turn on the line.
        line_->run(
            frame, made ? call.run : [] {});
        const AllocationFrame::Usage usage = frame.end();
        check(!usage.escaped_arena, "an exchange keeps memory that it was lent for one call");
        out_of_arena = usage.out_of_arena_bytes;
      } else if (made) {
        call.run();
      }
    } catch (...) {
      thrown = std::current_exception();
    }
    lock.lock();
    if (made && thrown) failure_ = thrown;
    out_of_arena_bytes_ = std::max(out_of_arena_bytes_, out_of_arena);
    ++done_;
    changed_.notify_all();
  }
}

}  // namespace plimsoll
