#include "run/executor/exchange_lane.h"

#include <ATen/core/LegacyTypeDispatch.h>

#include <algorithm>
#include <string>
#include <utility>

#include "collectives/exchange.h"
#include "plimsoll/error.h"

namespace plimsoll {

int64_t ExchangeLane::start(std::function<void()> call, std::byte* landing, int64_t landing_bytes) {
  if (line_) line_->follow();
  return thread_.start([=, this, call = std::move(call), exchange = current_exchange(), place = current_place()] {
    const ExchangeScope scope(exchange, place);
    run(call, landing, landing_bytes);
  });
}

void ExchangeLane::wait(int64_t number) {
  const ExchangeTimer timer;
  thread_.wait(number);
  const std::lock_guard lock(mutex_);
  if (failure_) std::rethrow_exception(failure_);
}

std::exception_ptr ExchangeLane::wait_for_all() noexcept {
  thread_.wait_for_all();
  const std::lock_guard lock(mutex_);
  return std::exchange(failure_, nullptr);
}

int64_t ExchangeLane::out_of_arena_bytes() const {
  const std::lock_guard lock(mutex_);
  return out_of_arena_bytes_;
}

void ExchangeLane::run(const std::function<void()>& call, std::byte* landing, int64_t landing_bytes) {
  const at::AutoDispatchBelowADInplaceOrView below_autograd;
  std::unique_lock lock(mutex_);
  const bool made = !failure_;
  lock.unlock();
  std::exception_ptr thrown;
  int64_t out_of_arena = 0;
  try {
    if (line_) {
      frame_.begin({}, landing, landing_bytes, alignment_);
      // An exchange that does not run still takes its turn on the line.
      line_->run(
          frame_, made ? call : [] {});
      const AllocationFrame::Usage usage = frame_.end();
      check(!usage.escaped_arena, "an exchange keeps memory that it was lent for one call");
      out_of_arena = usage.out_of_arena_bytes;
    } else if (made) {
      call();
    }
  } catch (...) {
    thrown = std::current_exception();
  }
  lock.lock();
  if (made && thrown) failure_ = thrown;
  out_of_arena_bytes_ = std::max(out_of_arena_bytes_, out_of_arena);
}

}  // namespace plimsoll
