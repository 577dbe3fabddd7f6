// Declares helpers with which the rules of operators' scratch read a recorded call, for any device.
#pragma once

#include <algorithm>

#include "ops/libtorch_types.h"
#include "ops/rows.h"
#include "plimsoll/error.h"

namespace plimsoll::ops {

inline int64_t accumulator_bytes(DType dtype) {
  return dtype == DType::float64 ? 8 : 4;
}

/// Returns the only tensor of an argument.
inline const View& tensor(const Op& op, size_t argument) {
  check(argument < op.arguments.size() && op.arguments[argument].views.size() == 1, op.name + ": operand missing");
  return op.arguments[argument].views[0];
}

/// Returns the integer or truth value of argument `index`; 0 if the trace has no constants.
inline int64_t integer(const Op& op, size_t index) {
  if (!op.call || index >= op.call->constants.size()) return 0;
  const c10::IValue& value = op.call->constants[index];
  return value.isBool() ? value.toBool() : value.isInt() ? value.toInt() : 0;
}

/// Returns true if matmuls can read the view in place: rows of contiguous elements.
inline bool is_matrix(const View& view) {
  return view.strides[1] == 1 && view.strides[0] >= view.sizes[1];
}

/// Alignment in bytes of the allocations of the CPU's allocator, and of CUDA's. Kernels rely on it.
inline constexpr int64_t kCpuScratchAlignment = 64, kCudaScratchAlignment = 256;

/// The scratch rules for allocations that begin at multiples of `alignment` bytes.
struct ScratchRules {
  int64_t alignment;

  int64_t rounded(int64_t bytes) const { return div_up(bytes, alignment) * alignment; }
  int64_t bytes_of(const View& view) const { return rounded(elements(view.sizes) * element_bytes(view.dtype)); }

  /// Returns the bytes that as_rows() copies.
  int64_t rows_copy(const View& view) const { return row_stride(view.sizes, view.strides) ? 0 : bytes_of(view); }
  int64_t contiguous_copy(const View& view) const {
    return is_contiguous(view.sizes, view.strides) ? 0 : bytes_of(view);
  }
  /// Returns the bytes of the copy of a kernel that needs a contiguous last dimension.
  int64_t inner_contiguous_copy(const View& view) const {
    return view.strides.back() == 1 || view.sizes.back() == 1 ? 0 : bytes_of(view);
  }
  /// Returns the bytes of copies of gradients whose order differs from that of their targets. Gradients of 8 bits never
  /// differ. The copies of a group are held together.
  int64_t gradient_copy(const Op& op) const {
    check(op.arguments.size() > 2 && op.arguments[0].views.size() == op.arguments[2].views.size(),
          op.name + ": operand missing");
    const auto &targets = op.arguments[0].views, &gradients = op.arguments[2].views;
    int64_t total = 0;
    for (size_t i = 0; i < targets.size(); ++i)
      if (!same_order(gradients[i].sizes, gradients[i].strides, targets[i].strides)) total += bytes_of(gradients[i]);
    return total;
  }
};

}  // namespace plimsoll::ops
