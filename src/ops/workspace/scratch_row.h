// Declares a row of the table of scratch: the functions that give an operator's scratch on a device, and what they
// read of a recorded call.
#pragma once

#include <algorithm>
#include <span>
#include <vector>

#include "ops/libtorch_types.h"
#include "ops/rows.h"
#include "ops/workspace/workspace.h"
#include "plimsoll/error.h"

namespace plimsoll::ops {

// Helpers with which the rules of operators' scratch read a recorded call, for any device.

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

/// The device that scratch is computed for, with its rules of rounding.
struct ScratchDevice : ScratchRules {
  int threads = 0;                                ///< threads of the CPU
  const MatmulScratch* matmul_scratch = nullptr;  ///< scratch of matmuls that the CPU leaves to libtorch
  int multiprocessors = 0;                        ///< number that a GPU has; 0: unknown
  bool flash_attention = true;                    ///< the GPU runs libtorch's flash kernels
};

using ScratchRule = std::optional<int64_t> (*)(const Op& op, const ScratchDevice& on);

/// The scratch of an operator on each device. nullptr: no rule, the first run measures it.
struct ScratchRow {
  std::string_view name;  ///< name in the table of operators (cost/operators.h)
  ScratchRule cpu = nullptr, cuda = nullptr;
};

inline std::optional<int64_t> no_scratch(const Op&, const ScratchDevice&) {
  return 0;
}
/// Returns the bytes that as_rows() copies of these arguments.
template <size_t... arguments>
std::optional<int64_t> rows_copies(const Op& op, const ScratchDevice& on) {
  return (on.rows_copy(tensor(op, arguments)) + ...);
}

inline View matrix(DType dtype, int64_t rows, int64_t columns, int64_t stride = 0) {
  return {kNoBuffer, dtype, 0, {rows, columns}, {stride > 0 ? stride : columns, 1}};
}
inline View transposed(View matrix) {
  std::swap(matrix.sizes[0], matrix.sizes[1]);
  std::swap(matrix.strides[0], matrix.strides[1]);
  return matrix;
}

/// Returns the different sizes of the pieces when `length` is cut into pieces of `piece`.
inline std::vector<int64_t> piece_sizes(int64_t length, int64_t piece) {
  std::vector<int64_t> sizes;
  if (length >= piece) sizes.push_back(piece);
  if (length % piece != 0) sizes.push_back(length % piece);
  return sizes;
}

/// The maximum scratch of matmuls that run one after the other on the CPU.
class MaxMatmulScratch {
 public:
  explicit MaxMatmulScratch(const ScratchDevice& on) : scratch_(*on.matmul_scratch) {}
  void add(View left, View right, View result, bool adds = false) {
    most_ = std::max(most_, scratch_({std::move(left), std::move(right), std::move(result), adds}));
  }
  int64_t bytes() const { return most_; }

 private:
  const MatmulScratch& scratch_;
  int64_t most_ = 0;
};

std::span<const ScratchRow> attention_scratch();
std::span<const ScratchRow> layer_scratch();
std::span<const ScratchRow> loss_scratch();
std::span<const ScratchRow> quantized_scratch();
std::span<const ScratchRow> scan_scratch();
std::span<const ScratchRow> update_scratch();

/// Returns the rows of all groups, and those of libtorch's operators.
std::vector<std::span<const ScratchRow>> scratch_groups();

}  // namespace plimsoll::ops
