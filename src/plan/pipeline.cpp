#include "plan/pipeline.h"

#include "plan/passes/dead_ops.h"

namespace plimsoll {

Trace prepare_trace(Trace trace) {
  // First, so that no later pass weighs or runs again work that nobody needs.
  return remove_dead_ops(std::move(trace));
}

}  // namespace plimsoll
