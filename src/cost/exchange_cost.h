// Declares the prediction of the seconds of exchanges between ranks.
#pragma once

#include "plimsoll/cost_model.h"
#include "plimsoll/trace.h"

namespace plimsoll {

/// Returns the buffer that a copy or an exchange writes.
inline BufferId target_of(const Op& op) {
  return op.arguments[0].views[0].buffer;
}

/// Returns the seconds of `op`, an exchange: the overhead plus the larger of exchange_seconds() and the op's traffic in
/// the rank's own memory at the streaming rate. Times of the op that were measured without other ranks are ignored.
double seconds_of_exchange(const CostModel& model, const Op& op);

}  // namespace plimsoll
