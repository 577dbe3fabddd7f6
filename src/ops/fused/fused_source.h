// Declares the C++ source of a fused op as a CUDA kernel of its own. NVRTC compiles it; any C++ compiler does with a
// few macros.
#pragma once

#include <cstdint>
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
  bool operator==(const FusedLayout&) const = default;
};

/// Returns the layout of operands over a loop of `dimensions`. With at most one dimension, all strides are 1, or 0 for
/// an input.
FusedLayout fused_layout(const std::vector<View>& inputs, const std::vector<View>& outputs);

/// Returns the number of elements that one thread computes with loads and stores of at most 16 bytes: 16 bytes of the
/// narrowest operand.
int64_t fused_vector_width(const FusedLayout& layout);

/// Returns the source of two kernels. `plimsoll_fused_wide` is for dense layouts only: fused_vector_width() elements a
/// thread; all addresses that are not scalars are multiples of 16 bytes. `plimsoll_fused` is for any layout, one
/// element a thread at a time. Their arguments are
///
///     const void* const inputs..., void* const outputs..., long long elements,
///     with dimensions > 1 also FusedStrides: sizes[6], then 6 strides of each operand, inputs first
///
/// Arithmetic is float32, one operation at a time. Compile the source without contraction (--fmad=false).
std::string fused_source(const FusedProgram& program, const FusedLayout& layout);

}  // namespace plimsoll::ops
