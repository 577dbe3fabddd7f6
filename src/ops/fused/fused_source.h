// A fused op as a CUDA kernel of its own: plain C++ that NVRTC compiles, and any C++ compiler with a few macros.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "trace/pointwise.h"

namespace plimsoll::ops {

/// What the text of a kernel depends on, beside the program. Sizes and strides are arguments of the kernel.
struct FusedLayout {
  std::vector<DType> inputs;
  std::vector<DType> outputs;
  std::vector<bool> scalar;  ///< by input: one element for all
  int dimensions = 1;        ///< 1: inputs that are not scalar, and outputs, are one run of neighbours each
  bool operator==(const FusedLayout&) const = default;
};

/// The layout of operands over a loop of `dimensions`; with at most one, all of stride 1, or 0 for an input.
FusedLayout fused_layout(const std::vector<View>& inputs, const std::vector<View>& outputs);

/// Elements that one thread computes with loads and stores of 16 bytes at most: 16 bytes of the narrowest operand.
int64_t fused_vector_width(const FusedLayout& layout);

/// Two kernels, `plimsoll_fused_wide` (dense layouts only: fused_vector_width() elements a thread, all addresses that
/// are not scalars multiples of 16 bytes) and `plimsoll_fused` (an element a thread at a time, anything), of arguments
///
///     const void* const inputs..., void* const outputs..., long long elements,
///     with dimensions > 1 also FusedStrides: sizes[6], then 6 strides of each operand, inputs first
///
/// Arithmetic is float32, an operation at a time: to be compiled without contraction (--fmad=false).
std::string fused_source(const FusedProgram& program, const FusedLayout& layout);

}  // namespace plimsoll::ops
