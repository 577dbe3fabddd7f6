// Declares the operator that passes/fuse_pointwise makes from chains of pointwise ops.
#pragma once

#include <ATen/core/Tensor.h>

#include "ops/fused/fused_cpu.h"

namespace plimsoll::ops {

/// The schema's name: plimsoll::fused(Tensor[] inputs, Tensor(a!)[] outputs, int[] program, float[] constants) -> ().
inline constexpr const char* kFused = "plimsoll::fused";

/// Returns the program that a call carries, with its registers; each thread computes it once. Throws UserError
/// (failure) if the arguments are no program.
const FusedSchedule& fused_schedule(at::IntArrayRef program, at::ArrayRef<double> constants);

/// Returns the call on these tensors, all of one shape. Throws UserError (failure) if they do not match the program.
FusedCall fused_call(const FusedSchedule& schedule, at::TensorList inputs, at::TensorList outputs);

}  // namespace plimsoll::ops
