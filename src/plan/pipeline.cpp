#include "plan/pipeline.h"

#include "plan/passes/dead_ops.h"
#include "plan/passes/fold_casts.h"
#include "plan/passes/fuse_norms.h"
#include "plan/passes/fuse_pointwise.h"
#include "plan/passes/group_updates.h"
#include "plan/passes/late_initialisation.h"
#include "plan/passes/update_in_backward.h"

namespace plimsoll {

Trace prepare_trace(Trace trace, bool updates_in_backward) {
  trace = fold_casts(std::move(trace));
  // Before ops are taken out, as it goes by the order that was recorded.
  if (updates_in_backward) trace = update_in_backward(std::move(trace));
  trace.update_pieces.clear();
  // Before all others, so that no pass weighs or runs again work that nobody needs.
  trace = remove_dead_ops(std::move(trace));
  return initialise_late(std::move(trace));
}

Trace fuse_trace(Trace trace, const PlanOptions& options) {
  if (!options.fusing) return trace;
  const Fusing& fusing = *options.fusing;
  // Norms first: a chain that took a norm's sum would leave the norm alone.
  trace = fuse_norms(std::move(trace), fusing, options.cost, options.workspace);
  trace = fuse_pointwise(std::move(trace), fusing, options.cost);
  return fusing.updates ? group_updates(std::move(trace), *fusing.updates) : trace;
}

}  // namespace plimsoll
