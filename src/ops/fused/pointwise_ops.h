// Declares the mapping of libtorch's pointwise operators to opcodes of fused ops, and the fusion of a norm with the
// sum that it reads.
#pragma once

#include <optional>

#include "trace/merged_ops.h"

namespace plimsoll {

/// The device whose kernels a fused op replaces.
enum class PointwiseDevice : uint8_t { cpu, cuda };

/// Returns `op` as one opcode with the same bits as the device's own kernel; nullopt if no opcode has them.
std::optional<PointwiseOp> pointwise_op(const Op& op, PointwiseDevice device);

/// Returns the call that replay needs for plimsoll::fused with `program`.
std::shared_ptr<const OpCall> fused_op_call(const FusedProgram& program);

/// Returns one op with the results of `first` and `second`, bit for bit on the CPU; nullopt if no kernel exists for the
/// pair. The pairs are a sum with the rms_norm of it, and rms_norm's backward with the sum that its gradient enters.
/// Only name, arguments, results and call of the op are set. A pair needs sums of two tensors of one shape, whose rows
/// have one constant stride. No other operand may be in the buffer of the sum, except an operand of the sum in place.
std::optional<Op> fused_norm(const Op& first, const Op& second, PointwiseDevice device);

}  // namespace plimsoll
