// Declares the pointwise operators that can be fused, and the source text of a fused chain for a GPU.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "trace/merged_ops.h"

namespace plimsoll::ops {

/// The properties of operands that a kernel's text depends on, in addition to the program. Sizes and strides are
/// arguments of the kernel.
struct FusedLayout {
  std::vector<DType> inputs;
  std::vector<DType> outputs;
  std::vector<bool> scalar;  ///< true for an input whose one element is used for all
  int dimensions = 1;        ///< 1: each output, and each input that is not scalar, is one contiguous run
  /// With more dimensions: along the last one outputs are contiguous, and inputs are contiguous or one element.
  bool in_rows = false;
  std::vector<bool> row_scalar = {};  ///< in rows: true for an input of one element along the last dimension
  bool operator==(const FusedLayout&) const = default;
};

/// Returns the layout of operands over a loop of `dimensions`. With at most one dimension, all strides are 1, or 0 for
/// an input.
FusedLayout fused_layout(const std::vector<View>& inputs, const std::vector<View>& outputs);

/// Sets in_rows and row_scalar from the strides of inputs and outputs along the last of several dimensions.
void set_rows(FusedLayout& layout, const std::vector<int64_t>& input_strides,
              const std::vector<int64_t>& output_strides);

/// Returns true if the layout has a kernel `plimsoll_fused_wide`.
inline bool has_wide_kernel(const FusedLayout& layout) {
  return layout.dimensions == 1 || layout.in_rows;
}

/// The place of an operand of a fused op: its address, and its strides in elements.
struct FusedOperand {
  const void* data;
  std::span<const int64_t> strides;
};

/// Returns true if `plimsoll_fused_wide` can run on `operands` (inputs, then outputs) of these `sizes`: each operand
/// that is read or written in packs begins at a multiple of 16 bytes, and its rows and row strides are whole packs.
bool takes_packs(const FusedLayout& layout, std::span<const int64_t> sizes, std::span<const FusedOperand> operands);

/// Returns the number of elements that one thread computes with loads and stores of at most 16 bytes: 16 bytes of the
/// narrowest operand.
int64_t fused_vector_width(const FusedLayout& layout);

/// Returns the source of two kernels. `plimsoll_fused_wide` is for operands that takes_packs() accepts: a pack of
/// fused_vector_width() elements a thread. `plimsoll_fused` is for any layout, one element a thread at a time. Their
/// arguments are
///
///     const void* const inputs..., void* const outputs..., long long elements,
///     with dimensions > 1 also FusedStrides: sizes[6], then 6 strides of each operand, inputs first
///
/// Arithmetic is float32, one operation at a time. Compile the source without contraction (--fmad=false).
std::string fused_source(const FusedProgram& program, const FusedLayout& layout);

}  // namespace plimsoll::ops

namespace plimsoll {

/// The device whose kernels a fused op replaces.
enum class PointwiseDevice : uint8_t { cpu, cuda };

/// Returns `op` as one opcode with the same bits as the device's own kernel; nullopt if no opcode has them.
std::optional<PointwiseOp> pointwise_op(const Op& op, PointwiseDevice device);

/// Returns the call that replay needs for plimsoll::fused with `program`.
std::shared_ptr<const OpCall> fused_op_call(const FusedProgram& program);

/// Returns one op with the results of `first` and `second`, bit for bit on the CPU; nullopt if no kernel exists for the
/// pair. The pairs are a sum with the rms_norm of it, and rms_norm's backward with the sum that its gradient enters. On
/// CUDA the latter pair is also the first op of a pair with the copy of its sum in 16 bits.
/// Only name, arguments, results and call of the op are set. A pair needs sums of two tensors of one shape, whose rows
/// have one constant stride. No other operand may be in the buffer of the sum, except an operand of the sum in place.
std::optional<Op> fused_norm(const Op& first, const Op& second, PointwiseDevice device);

}  // namespace plimsoll
