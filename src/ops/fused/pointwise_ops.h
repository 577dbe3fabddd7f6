// Declares the mapping of libtorch's pointwise operators to opcodes of fused ops.
#pragma once

#include "trace/pointwise.h"

namespace plimsoll {

/// The device whose kernels a fused op replaces.
enum class PointwiseDevice : uint8_t { cpu, cuda };

/// Returns `op` as one opcode with the same bits as the device's own kernel; nullopt if no opcode has them.
std::optional<PointwiseOp> pointwise_op(const Op& op, PointwiseDevice device);

/// Returns the call that replay needs for plimsoll::fused with `program`.
std::shared_ptr<const OpCall> fused_op_call(const FusedProgram& program);

}  // namespace plimsoll
