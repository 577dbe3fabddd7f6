#include <algorithm>

#include "ops/cuda_op_support.h"
#include "ops/optimizer/gradient_norm.h"
#include "ops/optimizer/gradient_norm_launch.h"
#include "ops/rows.h"

namespace plimsoll::ops {
namespace {

using at::Tensor;

static_assert(kCudaNormBlock == kNormBlock, "slices of gradients would begin inside of a block");

void gradient_norm_cuda(Tensor& norms, Tensor& skipped, const Tensor& gradient, int64_t index) {
  check_gradient_norm(norms, skipped, gradient, index);
  const cuda::OnDevice on(gradient);
  // The order of the elements in memory does not matter if there are no gaps.
  const Tensor dense = gradient.is_non_overlapping_and_dense() ? gradient : gradient.contiguous();
  const Tensor partials = at::empty({div_up(dense.numel(), kCudaNormBlock)}, gradient.options().dtype(at::kDouble));
  cuda::launch_gradient_norm(
      dense.const_data_ptr(), dtype_of(dense), dense.numel(), static_cast<double*>(partials.data_ptr()),
      norms.mutable_data_ptr<float>() + index * norms.stride(0), skipped.mutable_data_ptr<float>(), on.stream());
}

void block_sums_cuda(Tensor& sums, const Tensor& gradient, int64_t first) {
  check_block_sums(sums, gradient, first);
  const cuda::OnDevice on(gradient);
  cuda::launch_block_sums(gradient.const_data_ptr(), dtype_of(gradient), gradient.numel(),
                          sums.mutable_data_ptr<double>() + first, on.stream());
}

void norms_of_blocks_cuda(Tensor& norms, Tensor& skipped, const Tensor& sums, int64_t ranks, at::IntArrayRef index,
                          at::IntArrayRef first, at::IntArrayRef blocks) {
  check_norms_of_blocks(norms, skipped, sums, ranks, index, first, blocks);
  const cuda::OnDevice on(sums);
  for (size_t begin = 0; begin < index.size(); begin += cuda::kNormsOfLaunch) {
    const size_t count = std::min<size_t>(cuda::kNormsOfLaunch, index.size() - begin);
    cuda::BlocksOfGradients of{};
    std::ranges::copy(index.slice(begin, count), of.index);
    std::ranges::copy(first.slice(begin, count), of.first);
    std::ranges::copy(blocks.slice(begin, count), of.blocks);
    cuda::launch_norms_of_blocks(sums.const_data_ptr<double>(), ranks, sums.numel() / ranks, of,
                                 static_cast<int>(count), norms.mutable_data_ptr<float>(), norms.stride(0),
                                 skipped.mutable_data_ptr<float>(), on.stream());
  }
}

TORCH_LIBRARY_IMPL(plimsoll, CUDA, m) {
  m.impl("gradient_norm_", gradient_norm_cuda);
  m.impl("gradient_block_sums_", block_sums_cuda);
  m.impl("norms_of_blocks_", norms_of_blocks_cuda);
}

}  // namespace
}  // namespace plimsoll::ops
