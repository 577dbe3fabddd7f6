// Computes the scratch of updates, norms of gradients, and exchanges between ranks.
#include "ops/cuda_plan.h"
#include "ops/optimizer/adafactor_plan.h"
#include "ops/optimizer/optimizer_plan.h"
#include "ops/workspace/scratch_row.h"

namespace plimsoll::ops {
namespace {

std::optional<int64_t> gradient_copies(const Op& op, const ScratchDevice& on) {
  return on.gradient_copy(op);
}

std::optional<int64_t> gradient_in_order(const Op& op, const ScratchDevice& on) {
  return on.contiguous_copy(tensor(op, 0));
}

template <bool gpu>
std::optional<int64_t> adafactor(const Op& op, const ScratchDevice& on) {
  const View& parameter = tensor(op, 0);
  const int64_t count = elements(parameter.sizes);
  if (count == 0) return on.gradient_copy(op);
  const MatrixShape shape = matrix_shape(parameter.sizes, parameter.strides);
  if (gpu) return on.gradient_copy(op) + on.rounded(cuda::adafactor_scratch_bytes(shape));
  const int64_t parts = adafactor_parts(count);
  return on.gradient_copy(op) + on.rounded(parts * shape.columns * 4) + on.rounded((shape.rows + parts) * 8);
}

std::optional<int64_t> block_norm_cuda(const Op&, const ScratchDevice& on) {
  return on.rounded(cuda::kNormParts * 8);
}

std::optional<int64_t> gradient_norm_cuda(const Op& op, const ScratchDevice& on) {
  const View& gradient = tensor(op, 2);
  // The order of the elements in memory does not matter if there are no gaps.
  std::vector<std::pair<int64_t, int64_t>> dims;
  for (size_t d = 0; d < gradient.sizes.size(); ++d)
    if (gradient.sizes[d] != 1) dims.emplace_back(gradient.strides[d], gradient.sizes[d]);
  std::ranges::sort(dims);
  bool dense = true;
  int64_t expected = 1;
  for (const auto& [stride, size] : dims) {
    dense = dense && stride == expected;
    expected *= size;
  }
  const int64_t count = elements(gradient.sizes);
  return (dense || count == 0 ? 0 : on.bytes_of(gradient)) + on.rounded(div_up(count, kCudaNormBlock) * 8);
}

std::optional<int64_t> reduction_cuda(const Op& op, const ScratchDevice& on) {
  return elements(tensor(op, 1).sizes) == 0 ? 0 : device_landing_bytes(on.bytes_of(tensor(op, 1)));
}

constexpr ScratchRow kUpdateScratch[] = {
    {"plimsoll::adamw_", gradient_copies, gradient_copies},
    {"plimsoll::lion_", gradient_copies, gradient_copies},
    {"plimsoll::sgd_", gradient_copies, gradient_copies},
    {"plimsoll::momentum_sgd_", gradient_copies, gradient_copies},
    {"plimsoll::accumulate_", gradient_copies, gradient_copies},
    {"plimsoll::adafactor_", adafactor<false>, adafactor<true>},
    {"plimsoll::nesterov_momentum_", gradient_in_order, gradient_in_order},
    {"plimsoll::block_norm", no_scratch, block_norm_cuda},
    {"plimsoll::unpacked", no_scratch, no_scratch},
    {"plimsoll::gradient_norm_", nullptr, gradient_norm_cuda},
    {"plimsoll::gradient_block_sums_", nullptr, no_scratch},
    {"plimsoll::norms_of_blocks_", nullptr, no_scratch},
    {"plimsoll::reduce_scatter_", nullptr, reduction_cuda},
    {"plimsoll::all_reduce_", nullptr, reduction_cuda},
    {"plimsoll::all_gather_", nullptr, no_scratch},
    {"plimsoll::gather_", nullptr, no_scratch},
    {"plimsoll::broadcast_", nullptr, no_scratch},
};

}  // namespace

std::span<const ScratchRow> update_scratch() {
  return kUpdateScratch;
}

}  // namespace plimsoll::ops
