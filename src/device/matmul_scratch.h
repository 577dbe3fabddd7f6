// Declares the scratch that libtorch's matmuls allocate on this machine's CPU: measured, or estimated within an
// allowance.
#pragma once

#include "base/measurement.h"
#include "ops/arithmetic/library_matmul.h"

namespace plimsoll {

/// Runs `product` once on `threads` threads, on zeros. Returns the bytes that it allocates from libtorch's allocator on
/// the calling thread, placed first-fit, each piece rounded up to 64 bytes. Operands use addresses only (pages never
/// written are one page of zeros); the result uses its bytes during the call. Known figures are not measured again in
/// this process. Throws MemoryUnavailable if the machine has no addresses for the operands.
int64_t measured_matmul_scratch(const ops::LibraryMatmul& product, int threads);

/// Scratch of a matmul, in bytes.
struct MatmulScratchFigure {
  int64_t bytes = 0;
  bool is_estimate = false;
};

/// Measured speed of the matmuls of one type.
struct MatmulSpeed {
  double flops_per_second = 0;  ///< expected; after a run, the speed of the largest matmul that ran
  double measured_flops = 0;    ///< flops of the largest matmul that ran; 0: none
};

/// Returns the scratch of `product` within `allowance`: measured if the allowance allows the matmul, and otherwise
/// estimated from parts of it (ops/workspace/matmul_estimate.h) or, if there is no time for parts either, its upper
/// bound. A matmul may take half of the remaining seconds, by `speed`, which each run corrects. Before a matmul with
/// more than 64 times the flops of all that ran, smaller parts of it run. `measure` runs a matmul.
MatmulScratchFigure matmul_scratch_within(const ops::LibraryMatmul& product, MatmulSpeed& speed,
                                          MeasureAllowance& allowance, const ops::MatmulScratch& measure);

/// Returns the scratch of `product`. A matmul in float32 blocks is not run, because its scratch has a formula. Other
/// matmuls are measured within `allowance`; nullptr: without a limit of time, if the machine has the memory for the
/// operands, the result and the scratch. A measured figure holds for the life of the process and replaces an estimate.
/// An estimate holds for its allowance.
MatmulScratchFigure matmul_scratch(const ops::LibraryMatmul& product, int threads, MeasureAllowance* allowance);

/// Returns the estimate that matmul_scratch() gives for `product` and `allowance` at present; 0: it gives none.
/// Measures nothing.
int64_t estimate_in_use(const ops::LibraryMatmul& product, int threads, const MeasureAllowance* allowance);

}  // namespace plimsoll
