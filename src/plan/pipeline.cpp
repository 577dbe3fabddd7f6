#include "plan/pipeline.h"

#include "plan/passes/dead_ops.h"
#include "plan/passes/recompute_blocks.h"

namespace plimsoll {

int64_t blocks_to_recompute(const Trace& trace) {
  return count_blocks(trace);
}

Trace run_pipeline(Trace trace, const PipelineOptions& options) {
  // First, so that no later pass weighs or clones work that nobody needs.
  trace = remove_dead_ops(std::move(trace));
  // Recomputation lengthens the trace and shortens lifetimes.
  if (options.recompute_blocks > 0) trace = recompute_blocks(std::move(trace), options.recompute_blocks);
  return trace;
}

}  // namespace plimsoll
