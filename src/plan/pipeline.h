// The passes, in order.
#pragma once

#include <cstdint>

#include "plimsoll/trace.h"

namespace plimsoll {

struct PipelineOptions {
  int64_t recompute_blocks = 0;  ///< how many block runs of a training segment are recomputed
};

/// How many block runs there are to recompute.
int64_t blocks_to_recompute(const Trace& trace);

/// From the recorded trace to the schedule.
Trace run_pipeline(Trace trace, const PipelineOptions& options);

}  // namespace plimsoll
