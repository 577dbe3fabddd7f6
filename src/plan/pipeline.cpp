#include "plan/pipeline.h"

#include "plan/passes/dead_ops.h"
#include "plan/passes/fold_casts.h"
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

}  // namespace plimsoll
