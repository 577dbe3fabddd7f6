#include "ops/optimizer/gradient_norm.h"

#include <ATen/Parallel.h>
#include <torch/csrc/autograd/autograd_not_implemented_fallback.h>
#include <torch/library.h>

#include <vector>

#include "ops/op_support.h"

namespace plimsoll::ops {
namespace {

using at::Tensor;

// Blocks that one thread sums in sequence.
constexpr int64_t kBlocksOfThread = 64;

}  // namespace

void check_gradient_norm(Tensor& norms, Tensor& skipped, const Tensor& gradient, int64_t index) {
  constexpr const char* op = "plimsoll::gradient_norm_";
  require_floating(op, "gradient", gradient);
  require(norms.scalar_type() == at::kFloat && norms.dim() == 1, op, "norms must be float32 of one dimension");
  require(skipped.scalar_type() == at::kFloat && skipped.dim() == 0, op, "skipped must be float32 of no dimensions");
  require(index >= 0 && index < norms.size(0), op, "index is ", index, "; norms has ", norms.size(0));
}

void check_gradient_norm_group(Tensor& norms, Tensor& skipped, at::TensorList gradients, at::IntArrayRef index) {
  constexpr const char* op = "plimsoll::gradient_norm_group_";
  require(gradients.size() == index.size(), op, "there are ", gradients.size(), " gradients and ", index.size(),
          " indices");
  for (size_t i = 0; i < gradients.size(); ++i) {
    check_gradient_norm(norms, skipped, gradients[i], index[i]);
    require(gradients[i].scalar_type() == gradients[0].scalar_type(), op, "gradients are of several dtypes");
  }
}

void check_block_sums(Tensor& sums, const Tensor& gradient, int64_t first) {
  constexpr const char* op = "plimsoll::gradient_block_sums_";
  require_floating(op, "gradient", gradient);
  require(gradient.dim() == 1 && gradient.is_contiguous(), op, "gradient must be flat and contiguous");
  const int64_t blocks = div_up(gradient.numel(), kNormBlock);
  require(sums.scalar_type() == at::kDouble && sums.dim() == 1 && sums.is_contiguous(), op,
          "sums must be float64 of one dimension");
  require(first >= 0 && first <= sums.numel() - blocks, op, "first is ", first, "; sums has ", sums.numel(),
          " elements, the gradient ", blocks, " blocks");
}

void check_norms_of_blocks(Tensor& norms, Tensor& skipped, const Tensor& sums, int64_t ranks, at::IntArrayRef index,
                           at::IntArrayRef first, at::IntArrayRef blocks) {
  constexpr const char* op = "plimsoll::norms_of_blocks_";
  require(norms.scalar_type() == at::kFloat && norms.dim() == 1, op, "norms must be float32 of one dimension");
  require(skipped.scalar_type() == at::kFloat && skipped.dim() == 0, op, "skipped must be float32 of no dimensions");
  require(sums.scalar_type() == at::kDouble && sums.dim() == 1 && sums.is_contiguous(), op,
          "sums must be float64 of one dimension");
  require(ranks >= 1 && sums.numel() % ranks == 0, op, "sums has ", sums.numel(), " elements for ", ranks, " ranks");
  require(index.size() == first.size() && index.size() == blocks.size(), op, "index, first and blocks differ in size");
  for (size_t i = 0; i < index.size(); ++i)
    require(index[i] >= 0 && index[i] < norms.size(0) && first[i] >= 0 && blocks[i] >= 0 &&
                first[i] <= sums.numel() / ranks - blocks[i],
            op, "gradient ", i, " is not in norms or sums");
}

namespace {

void put_norm(Tensor& norms, Tensor& skipped, int64_t index, double sum_of_squares) {
  const auto norm = static_cast<float>(std::sqrt(sum_of_squares));
  norms.mutable_data_ptr<float>()[index] = norm;
  if (!std::isfinite(norm)) *skipped.mutable_data_ptr<float>() = 1;
}

// Computes the sums of blocks, which are the same for any thread count.
void sum_blocks(const Tensor& dense, double* sums) {
  const int64_t count = dense.numel();
  const void* data = dense.const_data_ptr();
  const DType dtype = dtype_of(dense);
  at::parallel_for(0, div_up(count, kNormBlock), kBlocksOfThread, [&](int64_t begin, int64_t end) {
    for (int64_t block = begin; block < end; ++block)
      sums[block] = sum_of_squares(data, dtype, block * kNormBlock, std::min(count, (block + 1) * kNormBlock));
  });
}

void gradient_norm_cpu(Tensor& norms, Tensor& skipped, const Tensor& gradient, int64_t index) {
  check_gradient_norm(norms, skipped, gradient, index);
  // The order of the elements in memory does not matter if there are no gaps.
  const Tensor dense = gradient.is_non_overlapping_and_dense() ? gradient : contiguous_copy(gradient);
  std::vector<double> sums(static_cast<size_t>(div_up(dense.numel(), kNormBlock)));
  sum_blocks(dense, sums.data());
  double total = 0;
  for (double sum : sums) total += sum;
  put_norm(norms, skipped, index, total);
}

void gradient_norm_group_cpu(Tensor& norms, Tensor& skipped, at::TensorList gradients, at::IntArrayRef index) {
  check_gradient_norm_group(norms, skipped, gradients, index);
  for (size_t i = 0; i < gradients.size(); ++i) gradient_norm_cpu(norms, skipped, gradients[i], index[i]);
}

void block_sums_cpu(Tensor& sums, const Tensor& gradient, int64_t first) {
  check_block_sums(sums, gradient, first);
  sum_blocks(gradient, sums.mutable_data_ptr<double>() + first);
}

void norms_of_blocks_cpu(Tensor& norms, Tensor& skipped, const Tensor& sums, int64_t ranks, at::IntArrayRef index,
                         at::IntArrayRef first, at::IntArrayRef blocks) {
  check_norms_of_blocks(norms, skipped, sums, ranks, index, first, blocks);
  const auto* all = sums.const_data_ptr<double>();
  const int64_t of_rank = sums.numel() / ranks;
  for (size_t i = 0; i < index.size(); ++i) {
    double total = 0;
    for (int64_t rank = 0; rank < ranks; ++rank)
      for (int64_t b = 0; b < blocks[i]; ++b) total += all[rank * of_rank + first[i] + b];
    put_norm(norms, skipped, index[i], total);
  }
}

}  // namespace

TORCH_LIBRARY_FRAGMENT(plimsoll, m) {
  m.def("gradient_norm_(Tensor(a!) norms, Tensor(b!) skipped, Tensor gradient, int index) -> ()");
  m.def("gradient_norm_group_(Tensor(a!) norms, Tensor(b!) skipped, Tensor[] gradients, int[] index) -> ()");
  m.def("gradient_block_sums_(Tensor(a!) sums, Tensor gradient, int first) -> ()");
  m.def(
      "norms_of_blocks_(Tensor(a!) norms, Tensor(b!) skipped, Tensor sums, int ranks, int[] index, int[] first, "
      "int[] blocks) -> ()");
}
TORCH_LIBRARY_IMPL(plimsoll, Meta, m) {
  m.impl("gradient_norm_", check_gradient_norm);
  m.impl("gradient_norm_group_", check_gradient_norm_group);
  m.impl("gradient_block_sums_", check_block_sums);
  m.impl("norms_of_blocks_", check_norms_of_blocks);
}
TORCH_LIBRARY_IMPL(plimsoll, CPU, m) {
  m.impl("gradient_norm_", gradient_norm_cpu);
  m.impl("gradient_norm_group_", gradient_norm_group_cpu);
  m.impl("gradient_block_sums_", block_sums_cpu);
  m.impl("norms_of_blocks_", norms_of_blocks_cpu);
}
TORCH_LIBRARY_IMPL(plimsoll, Autograd, m) {
  for (const char* name : {"gradient_norm_", "gradient_norm_group_", "gradient_block_sums_", "norms_of_blocks_"})
    m.impl(name, torch::autograd::autogradNotImplementedFallback());
}

void gradient_norm_(const Tensor& norms, const Tensor& skipped, const Tensor& gradient, int64_t index) {
  static const auto handle =
      operator_handle<void(Tensor&, Tensor&, const Tensor&, int64_t)>("plimsoll::gradient_norm_");
  Tensor norms_out = norms, skipped_out = skipped;
  handle.call(norms_out, skipped_out, gradient, index);
}

void gradient_norm_group_(const Tensor& norms, const Tensor& skipped, at::TensorList gradients, at::IntArrayRef index) {
  static const auto handle =
      operator_handle<void(Tensor&, Tensor&, at::TensorList, at::IntArrayRef)>("plimsoll::gradient_norm_group_");
  Tensor norms_out = norms, skipped_out = skipped;
  handle.call(norms_out, skipped_out, gradients, index);
}

void gradient_block_sums_(const Tensor& sums, const Tensor& gradient, int64_t first) {
  static const auto handle = operator_handle<void(Tensor&, const Tensor&, int64_t)>("plimsoll::gradient_block_sums_");
  Tensor sums_out = sums;
  handle.call(sums_out, gradient, first);
}

void norms_of_blocks_(const Tensor& norms, const Tensor& skipped, const Tensor& sums, int64_t ranks,
                      at::IntArrayRef index, at::IntArrayRef first, at::IntArrayRef blocks) {
  static const auto handle = operator_handle<void(Tensor&, Tensor&, const Tensor&, int64_t, at::IntArrayRef,
                                                  at::IntArrayRef, at::IntArrayRef)>("plimsoll::norms_of_blocks_");
  Tensor norms_out = norms, skipped_out = skipped;
  handle.call(norms_out, skipped_out, sums, ranks, index, first, blocks);
}

}  // namespace plimsoll::ops
