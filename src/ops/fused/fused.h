// Declares the operator that passes/fuse_pointwise makes from chains of pointwise ops. On the CPU it runs block by
// block, each step a loop over a block that stays in the first-level cache.
//
// Dense float32 operands are read and written in place; others are converted into registers, a block of floats each.
// Values that one step passes to the next never leave the cache.
#pragma once

#include <ATen/core/Tensor.h>

#include <array>
#include <cstdint>
#include <vector>

#include "trace/merged_ops.h"

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

/// The schema's name: plimsoll::fused(Tensor[] inputs, Tensor(a!)[] outputs, int[] program, float[] constants) -> ().
inline constexpr const char* kFused = "plimsoll::fused";

/// Returns the program that a call carries, with its registers; each thread computes it once. Throws UserError
/// (failure) if the arguments are no program.
const FusedSchedule& fused_schedule(at::IntArrayRef program, at::ArrayRef<double> constants);

/// Returns the call on these tensors, all of one shape. Throws UserError (failure) if they do not match the program.
FusedCall fused_call(const FusedSchedule& schedule, at::TensorList inputs, at::TensorList outputs);

}  // namespace plimsoll::ops
