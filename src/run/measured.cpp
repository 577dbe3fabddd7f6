#include "run/measured.h"

#include <sys/resource.h>

#include <algorithm>

#include "plimsoll/bytes.h"

namespace plimsoll {

Breakdown measured_breakdown(const Breakdown& planned, const MemoryUse& use) {
  Breakdown measured = planned;
  measured.context = 0;  // only bytes of the arena and the heap are counted
  int64_t unused = measured.total() - use.measured_peak();
  for (int64_t* part : {&measured.fragmentation, &measured.workspace, &measured.activations, &measured.gradients,
                        &measured.inputs, &measured.optimizer_state, &measured.parameters}) {
    const int64_t taken = std::clamp<int64_t>(unused, 0, *part);
    *part -= taken;
    unused -= taken;
  }
  measured.workspace -= unused;  // `unused` negative: scratch that was not planned
  return measured;
}

int64_t peak_resident_bytes() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return usage.ru_maxrss * KiB;  // Linux counts in KiB
}

}  // namespace plimsoll
