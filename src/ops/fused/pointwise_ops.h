// libtorch's pointwise operators as opcodes of fused ops.
#pragma once

#include "trace/pointwise.h"

namespace plimsoll {

/// Whose kernels a fused op stands in for.
enum class PointwiseDevice : uint8_t { cpu, cuda };

/// `op` as one opcode that gives the bits that the device's own kernel gives; nullopt where none does.
std::optional<PointwiseOp> pointwise_op(const Op& op, PointwiseDevice device);

/// What replay needs of plimsoll::fused with that program.
std::shared_ptr<const OpCall> fused_op_call(const FusedProgram& program);

}  // namespace plimsoll
