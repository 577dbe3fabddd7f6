#include "train/loop/stop_request.h"

#include <atomic>

#include "plimsoll/train_job.h"

namespace plimsoll {
namespace {

std::atomic<bool> stop_requested = false;
static_assert(std::atomic<bool>::is_always_lock_free, "set from a signal handler");

}  // namespace

void request_stop() noexcept {
  stop_requested = true;
}

bool is_stop_requested() noexcept {
  return stop_requested;
}

StopRequest::~StopRequest() {
  stop_requested = false;
}

}  // namespace plimsoll
