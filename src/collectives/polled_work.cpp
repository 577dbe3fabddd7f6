#include "collectives/polled_work.h"

#include <thread>
#include <utility>

namespace plimsoll {
namespace {

// Exchanges take 20 microseconds or more: the thread first polls without a pause.
constexpr auto kEager = std::chrono::microseconds(300);
constexpr auto kPause = std::chrono::microseconds(50);

}  // namespace

PolledWork::PolledWork(std::function<bool()> done) : done_(std::move(done)) {}

bool PolledWork::wait(std::chrono::milliseconds timeout) {
  const auto begin = std::chrono::steady_clock::now();
  while (!done_()) {
    const auto passed = std::chrono::steady_clock::now() - begin;
    if (aborted_ || passed >= timeout) return false;
    if (passed < kEager) {
      std::this_thread::yield();
    } else {
      std::this_thread::sleep_for(kPause);
    }
  }
  return true;
}

void PolledWork::abort() {
  aborted_ = true;
}

}  // namespace plimsoll
