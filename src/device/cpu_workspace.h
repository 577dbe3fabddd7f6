// What scratch CPU kernels take, by rule: operators of our own state theirs, libtorch's are known where their source
// says it.
#pragma once

#include <cstdint>
#include <memory>

#include "plimsoll/plan.h"

namespace plimsoll {

class MeasureAllowance;

/// For `threads` CPU threads of this machine: products that our operators leave to libtorch are run once, to see what
/// they take, within `allowance`; those that it does not allow are estimated. nullptr: a run is about to take the
/// memory, and every product is measured that the machine has the memory for. Operators without a rule give nullopt:
/// their scratch is learned on the first step.
WorkspaceModel cpu_workspace_model(int threads, std::shared_ptr<MeasureAllowance> allowance = nullptr);

/// Matmuls whose scratch is an estimate.
struct EstimatedScratch {
  int64_t matmuls = 0;
  int64_t bytes = 0;  ///< the largest estimate; one op runs at a time
};
/// Returns the number of matmuls of `trace` with estimated scratch, and the largest estimate in bytes. The estimates
/// are those of cpu_workspace_model() with this allowance. Measures nothing.
EstimatedScratch estimated_scratch(const Trace& trace, int threads, const MeasureAllowance* allowance);

}  // namespace plimsoll
