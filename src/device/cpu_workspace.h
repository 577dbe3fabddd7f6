// Declares the scratch that CPU kernels allocate, by rule. Operators of our own state theirs; the rules for libtorch's
// come from its source.
#pragma once

#include <cstdint>
#include <memory>

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

}  // namespace plimsoll
