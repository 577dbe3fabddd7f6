#include "train/measured.h"

#include <algorithm>

namespace plimsoll {

Breakdown measured_breakdown(const Breakdown& planned, const MemoryUse& use) {
  Breakdown measured = planned;
  measured.context = 0;  // counted bytes are the arena's and the heap's
  int64_t untouched = measured.total() - use.arena;
  for (int64_t* part : {&measured.fragmentation, &measured.workspace, &measured.activations, &measured.gradients,
                        &measured.inputs, &measured.optimizer_state, &measured.parameters}) {
    const int64_t taken = std::clamp<int64_t>(untouched, 0, *part);
    *part -= taken;
    untouched -= taken;
  }
  // An earlier plan of the same run, before its scratch was learned, may have used a byte further up.
  measured.fragmentation -= untouched;
  measured.workspace += use.workspace;
  return measured;
}

}  // namespace plimsoll
