// How a fused op runs on the CPU: block by block, each step a loop over a block that stays in the first level of cache.
//
// Dense float32 operands are read and written where they lie; others are converted into registers, a block of floats
// each. What one step hands to the next never leaves the cache.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "trace/pointwise.h"

namespace plimsoll::ops {

/// A program with its values in registers. Made once, used for every call.
struct FusedSchedule {
  FusedProgram program;
  std::vector<int32_t> registers;  ///< by value; those in use at a time are different
  std::vector<int32_t> loads;      ///< by value: the step before which an input is loaded; -1: before the first block
  int32_t count = 0;               ///< of registers
};

FusedSchedule schedule_fused(FusedProgram program);

struct FusedTensor {
  void* data = nullptr;
  DType dtype = DType::float32;
  std::array<int64_t, kMostFusedDimensions> strides{};  ///< in elements; 0: broadcast
};

struct FusedCall {
  const FusedSchedule* schedule = nullptr;
  int dimensions = 0;
  std::array<int64_t, kMostFusedDimensions> sizes{};  ///< outermost first
  std::array<FusedTensor, kMostFusedInputs> inputs;
  std::array<FusedTensor, kMostFusedOutputs> outputs;

  /// One run of neighbours, or one element again and again.
  bool dense(const FusedTensor& tensor) const { return dimensions == 0 || (dimensions == 1 && tensor.strides[0] <= 1); }
};

/// Computes elements [begin, end), counted in the order of the loop over `sizes`.
void fused_range(const FusedCall& call, int64_t begin, int64_t end);

}  // namespace plimsoll::ops
