#include "plan/pipeline.h"

#include "plan/passes/dead_ops.h"
#include "plan/passes/late_initialisation.h"

namespace plimsoll {

Trace prepare_trace(Trace trace) {
  // First, so that no later pass weighs or runs again work that nobody needs.
  trace = remove_dead_ops(std::move(trace));
  return initialise_late(std::move(trace));
}

}  // namespace plimsoll
