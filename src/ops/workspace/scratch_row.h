// Declares a row of the table of operators' scratch, and the rows of each group of operators.
#pragma once

#include <span>
#include <vector>

#include "ops/workspace/workspace.h"
#include "ops/workspace/workspace_rules.h"

namespace plimsoll::ops {

/// The device that scratch is computed for, with its rules of rounding.
struct ScratchDevice : ScratchRules {
  int threads = 0;                                ///< threads of the CPU
  const MatmulScratch* matmul_scratch = nullptr;  ///< scratch of matmuls that the CPU leaves to libtorch
  int multiprocessors = 0;                        ///< number that a GPU has; 0: unknown
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
