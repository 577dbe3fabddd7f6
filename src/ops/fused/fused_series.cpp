#include "ops/fused/fused_series.h"

#include <ATen/Version.h>

namespace plimsoll::ops {
namespace {

using Step = bool (*)(const FusedBlockStep&, int64_t, int64_t, int64_t);

// Returns the step for the instruction set that libtorch's own kernels run with. ATEN_CPU_CAPABILITY may set a smaller
// one than the processor has.
Step pick() {
  const std::string capability = at::get_cpu_capability();
#ifdef PLIMSOLL_SERIES_FOR_X86
  if (capability == "AVX512") return series::step_avx512;
  if (capability == "AVX2") return series::step_avx2;
#endif
  return series::step_default;
}

}  // namespace

bool fused_series_step(const FusedBlockStep& step, int64_t count, int64_t begin, int64_t piece) {
  static const Step picked = pick();
  return picked(step, count, begin, piece);
}

}  // namespace plimsoll::ops
