// Declares how a fused op runs on the CPU: block by block, each step a loop over a block that stays in the first-level
// cache.
//
// Dense float32 operands are read and written in place; others are converted into registers, a block of floats each.
// Values that one step passes to the next never leave the cache.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "trace/pointwise.h"

namespace plimsoll::ops {

/// A program with its values assigned to registers. It is made once and used for every call.
struct FusedSchedule {
  FusedProgram program;
  std::vector<int32_t> registers;  ///< register of each value; values in use at the same time have different ones
  std::vector<int32_t> loads;      ///< step before which each input is loaded; -1: before the first block
  int32_t count = 0;               ///< number of registers
};

FusedSchedule schedule_fused(FusedProgram program);

struct FusedTensor {
  void* data = nullptr;
  DType dtype = DType::float32;
  std::array<int64_t, kMaxFusedDimensions> strides{};  ///< strides in elements; 0: broadcast
};

struct FusedCall {
  const FusedSchedule* schedule = nullptr;
  int dimensions = 0;
  std::array<int64_t, kMaxFusedDimensions> sizes{};  ///< sizes, outermost first
  std::array<FusedTensor, kMaxFusedInputs> inputs;
  std::array<FusedTensor, kMaxFusedOutputs> outputs;

  /// Returns true if the tensor is one contiguous run, or one element that is repeated.
  bool dense(const FusedTensor& tensor) const { return dimensions == 0 || (dimensions == 1 && tensor.strides[0] <= 1); }
};

/// Computes elements [begin, end), counted in the order of the loop over `sizes`.
void fused_range(const FusedCall& call, int64_t begin, int64_t end);

}  // namespace plimsoll::ops
