// The operator that passes/fuse_pointwise makes of chains of pointwise ops.
#pragma once

#include <ATen/core/Tensor.h>

#include "ops/fused/fused_cpu.h"

namespace plimsoll::ops {

/// The schema's name: plimsoll::fused(Tensor[] inputs, Tensor(a!)[] outputs, int[] program, float[] constants) -> ().
inline constexpr const char* kFused = "plimsoll::fused";

/// The program that a call carries, with its registers; worked out once for each thread. Throws UserError (failure)
/// where it is none.
const FusedSchedule& fused_schedule(at::IntArrayRef program, at::ArrayRef<double> constants);

/// The call on these tensors, all of one shape. Throws UserError (failure) where they are not what the program is for.
FusedCall fused_call(const FusedSchedule& schedule, at::TensorList inputs, at::TensorList outputs);

}  // namespace plimsoll::ops
