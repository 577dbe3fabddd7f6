// Declares the scratch that kernels allocate, by rule, on the CPU and on CUDA, and the scratch of libtorch's matmuls
// on this CPU: measured, or estimated within an allowance.
#pragma once

#include <cstdint>
#include <memory>

#include "base/measurement.h"
#include "ops/workspace/workspace.h"
#include "plimsoll/planner.h"

namespace plimsoll {

class MeasureAllowance;

/// Returns the model for `threads` CPU threads of this machine. Matmuls that our operators leave to libtorch are run
/// once to measure their scratch, within `allowance`; matmuls that it does not allow are estimated. nullptr: a run is
/// about to allocate the memory, and every matmul is measured that the machine has the memory for. Operators without a
/// rule give nullopt: their scratch is measured in the first step.
WorkspaceModel cpu_workspace_model(int threads, std::shared_ptr<MeasureAllowance> allowance = nullptr);

/// Number and size of matmuls whose scratch is an estimate.
struct EstimatedScratch {
  int64_t matmuls = 0;
  int64_t bytes = 0;  ///< the largest estimate; one op runs at a time
};
/// Returns the number of matmuls of `trace` with estimated scratch, and the largest estimate in bytes. The estimates
/// are those of cpu_workspace_model() with this allowance. Measures nothing.
EstimatedScratch estimated_scratch(const Trace& trace, int threads, const MeasureAllowance* allowance);

/// Returns the model of CUDA devices, for plans made without a device to measure it on. Operators without a rule give
/// nullopt: their scratch is measured on a device. `multiprocessors` of the device determine the scratch of attention;
/// 0: not known, the largest number of any device. `flash_attention`: the device runs libtorch's flash kernels.
WorkspaceModel cuda_workspace_model(int multiprocessors = 0, bool flash_attention = true);

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
