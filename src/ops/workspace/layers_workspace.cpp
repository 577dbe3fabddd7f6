// Computes the scratch of norms, the rotary embedding and gated activations.
#include "ops/cuda_plan.h"
#include "ops/layers/add_rms_norm_plan.h"
#include "ops/workspace/scratch_row.h"

namespace plimsoll::ops {
namespace {

/// Returns the bytes of the copy of a norm's weight. Kernels of the CPU read it in the accumulator's type.
template <bool gpu>
int64_t weight_copy(const View& weight, const ScratchDevice& on) {
  if (gpu) return on.contiguous_copy(weight);
  const bool is_plain_float = weight.dtype == DType::float32 || weight.dtype == DType::float64;
  if (is_plain_float && is_contiguous(weight.sizes, weight.strides)) return 0;
  return on.rounded(elements(weight.sizes) * accumulator_bytes(weight.dtype));
}

template <bool gpu>
std::optional<int64_t> rms_norm(const Op& op, const ScratchDevice& on) {
  return on.rows_copy(tensor(op, 0)) + weight_copy<gpu>(tensor(op, 1), on);
}

/// Returns the scratch of an op whose grad_y, x and weight begin at argument `at`.
template <bool gpu, size_t at>
std::optional<int64_t> rms_norm_backward(const Op& op, const ScratchDevice& on) {
  const View& x = tensor(op, at + 1);
  const int64_t width = x.sizes.back(), count = elements(x.sizes) / width;
  const int64_t blocks = div_up(count, gpu ? cuda_norm_block_rows(count) : norm_block_rows(count));
  return on.rows_copy(tensor(op, at)) + on.rows_copy(x) + weight_copy<gpu>(tensor(op, at + 2), on) +
         on.rounded(blocks * width * accumulator_bytes(x.dtype));
}

template <bool gpu>
std::optional<int64_t> add_rms_norm(const Op& op, const ScratchDevice& on) {
  return on.rows_copy(tensor(op, 1)) + on.rows_copy(tensor(op, 2)) + weight_copy<gpu>(tensor(op, 3), on);
}

template <bool gpu>
std::optional<int64_t> rms_norm_backward_add(const Op& op, const ScratchDevice& on) {
  const int64_t total = on.rows_copy(tensor(op, 1)) + rms_norm_backward<gpu, 2>(op, on).value();
  if (gpu) return total;
  // Each thread holds some rows of dx.
  const View& x = tensor(op, 3);
  const int64_t width = x.sizes.back(), rows = rows_per_pass_of(elements(x.sizes) / width, width);
  return total + on.rounded(on.threads * rows * width * element_bytes(x.dtype));
}

template <bool gpu>
std::optional<int64_t> rope(const Op& op, const ScratchDevice& on) {
  const View& x = tensor(op, 0);
  if (elements(x.sizes) == 0) return 0;
  const int64_t copy = x.strides[3] == 1 ? 0 : on.bytes_of(x);
  return gpu ? copy : copy + on.rounded(x.sizes[3] / 2 * 8);  // frequencies; a GPU has them in the launch
}

constexpr ScratchRow kLayerScratch[] = {
    {"plimsoll::rms_norm", rms_norm<false>, rms_norm<true>},
    {"plimsoll::rms_norm_backward", rms_norm_backward<false, 0>, rms_norm_backward<true, 0>},
    {"plimsoll::add_rms_norm", add_rms_norm<false>, add_rms_norm<true>},
    {"plimsoll::rms_norm_backward_add", rms_norm_backward_add<false>, rms_norm_backward_add<true>},
    {"plimsoll::rope", rope<false>, rope<true>},
    {"plimsoll::swiglu", rows_copies<0>, rows_copies<0>},
    {"plimsoll::swiglu_backward", rows_copies<0, 1>, rows_copies<0, 1>},
    {"plimsoll::geglu", rows_copies<0>, rows_copies<0>},
    {"plimsoll::geglu_backward", rows_copies<0, 1>, rows_copies<0, 1>},
};

}  // namespace

std::span<const ScratchRow> layer_scratch() {
  return kLayerScratch;
}

}  // namespace plimsoll::ops
