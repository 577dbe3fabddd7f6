#include "cost/segment_clock.h"

#include <algorithm>

#include "cost/exchange_cost.h"

namespace plimsoll {

void SegmentClock::run(const Op& op) {
  if (op.link_bytes > 0 || op.exchange != CopyStage::none) return run_exchange(op);
  now_ += seconds_of(model_, op);
  if (op.copy == CopyStage::none) return;
  const BufferId target = target_of(op);
  const auto found = copied_.find(target);
  if (op.copy == CopyStage::wait && found != copied_.end()) now_ = std::max(now_, found->second);
  if (op.copy == CopyStage::start && model_.copies_overlap) {
    double& free = copies_free_[trace_.buffers[target].on_device() ? 1 : 0];
    copied_[target] = free = std::max(free, now_) + copy_seconds(model_, op.bytes_moved / 2, op.offload_memory);
  }
}

void SegmentClock::run_exchange(const Op& op) {
  const double begin = now_;
  switch (op.exchange) {
    case CopyStage::start:
      now_ += seconds_of(model_, op);
      exchanged_[target_of(op)] = exchanges_free_ = std::max(exchanges_free_, now_) + seconds_of_exchange(model_, op);
      return;
    case CopyStage::wait:
      if (const auto found = exchanged_.find(target_of(op)); found != exchanged_.end())
        now_ = std::max(now_, found->second);
      break;
    case CopyStage::none:  // an exchange without overlap runs after those in progress
      now_ = std::max(now_, exchanges_free_) + seconds_of_exchange(model_, op);
      break;
  }
  waited_ += now_ - begin;
}

}  // namespace plimsoll
