#include "ops/workspace/workspace_cuda_updates.h"

#include <algorithm>
#include <string_view>

#include "ops/cuda_plan.h"
#include "ops/optimizer/optimizer_plan.h"
#include "ops/quantized/quantized_plan.h"
#include "ops/scan/causal_conv_plan.h"
#include "ops/scan/ssd_scan_panels.h"
#include "ops/workspace/workspace_rules.h"
#include "trace/update_group.h"

namespace plimsoll::ops {
namespace {

constexpr ScratchRules kScratch{kCudaScratchAlignment};

int64_t adafactor(const Op& op) {
  const View& parameter = tensor(op, 0);
  if (elements(parameter.sizes) == 0) return kScratch.gradient_copy(op);
  return kScratch.gradient_copy(op) +
         kScratch.rounded(cuda::adafactor_scratch_bytes(matrix_shape(parameter.sizes, parameter.strides)));
}

/// Returns the bytes of a dequantised piece of the weight.
int64_t quantized_linear(const Op& op) {
  const View &x = tensor(op, 0), &codes = tensor(op, 1);
  const int64_t rows = codes.sizes[0], width = x.sizes.back(), bytes = element_bytes(x.dtype);
  if (elements(x.sizes) == 0 || rows == 0) return 0;
  return kScratch.contiguous_copy(x) +
         kScratch.rounded(quantized_tile_rows(rows, width, bytes, kQuantizedGpuTileBytes) * width * bytes);
}
int64_t quantized_linear_backward(const Op& op) {
  const View &grad = tensor(op, 0), &codes = tensor(op, 1);
  const int64_t rows = codes.sizes[0], width = op.results.at(0).sizes.back(), bytes = element_bytes(grad.dtype);
  if (elements(grad.sizes) == 0 || width == 0) return 0;
  const int64_t columns = quantized_tile_columns(rows, width, bytes, kQuantizedGpuTileBytes);
  return kScratch.contiguous_copy(grad) + kScratch.rounded(rows * std::min(width, columns) * bytes);
}

/// Returns the bytes of copies and of one panel; the operands begin at `x_at`.
int64_t ssd_scan(const Op& op, size_t x_at, bool backward) {
  const View &x = tensor(op, x_at), &b = tensor(op, x_at + 3);
  // The states, a result, determine the number of chunks; the length of a chunk is a constant of the call.
  check(op.results.size() == (backward ? 7 : 2), op.name + " has its states as the last result");
  const int64_t time = x.sizes[1], given = integer(op, x_at + 6);
  const int64_t chunk = given > 0 ? given : div_up(time, op.results.back().sizes[3]);
  const SsdShape shape{x.sizes[0], time, x.sizes[2], x.sizes[3], b.sizes[2], b.sizes[3], chunk, false};
  int64_t total = kScratch.inner_contiguous_copy(x) + kScratch.inner_contiguous_copy(b) +
                  kScratch.inner_contiguous_copy(tensor(op, x_at + 4)) +
                  kScratch.contiguous_copy(tensor(op, x_at + 2)) + kScratch.contiguous_copy(tensor(op, x_at + 5)) +
                  kScratch.rounded(cuda::SsdPanels(shape, element_bytes(x.dtype), backward).bytes);
  if (backward)
    total += kScratch.inner_contiguous_copy(tensor(op, 0)) +
             kScratch.rounded(ssd_partial_sums(shape) * accumulator_bytes(x.dtype));
  return total;
}

int64_t causal_conv1d_backward(const Op& op) {
  const View& x = tensor(op, 1);
  const int64_t tasks = x.sizes[0] * div_up(x.sizes[1], conv_block(x.sizes[1]));
  return kScratch.inner_contiguous_copy(tensor(op, 0)) + kScratch.inner_contiguous_copy(x) +
         kScratch.rounded(tasks * (kConvTaps + 1) * x.sizes[2] * accumulator_bytes(x.dtype));
}

}  // namespace

std::optional<int64_t> cuda_updates_workspace_bytes(const Op& op) {
  const std::string_view name = single_name(std::string_view(op.name).substr(0, op.name.find('.')));
  if (is_one_of(name, {"plimsoll::adamw_", "plimsoll::lion_", "plimsoll::sgd_", "plimsoll::momentum_sgd_",
                       "plimsoll::accumulate_"}))
    return kScratch.gradient_copy(op);
  if (is_one_of(name, {"plimsoll::reduce_scatter_", "plimsoll::all_reduce_"}))
    return elements(tensor(op, 1).sizes) == 0 ? 0 : device_landing_bytes(kScratch.bytes_of(tensor(op, 1)));
  if (is_one_of(name, {"plimsoll::all_gather_", "plimsoll::gather_", "plimsoll::broadcast_"})) return 0;
  if (name == "plimsoll::adafactor_") return adafactor(op);
  if (name == "plimsoll::nesterov_momentum_") return kScratch.contiguous_copy(tensor(op, 0));
  if (name == "plimsoll::block_norm") return kScratch.rounded(cuda::kNormParts * 8);
  if (name == "plimsoll::quantized_linear") return quantized_linear(op);
  if (name == "plimsoll::quantized_linear_backward") return quantized_linear_backward(op);
  if (name == "plimsoll::quantize_weight")
    return row_stride(tensor(op, 0).sizes, tensor(op, 0).strides) ? 0 : kScratch.bytes_of(tensor(op, 0));
  if (is_one_of(name, {"plimsoll::unpacked", "plimsoll::quantize_scales", "plimsoll::dequantize_weight"})) return 0;
  if (name == "plimsoll::ssd_scan") return ssd_scan(op, 0, /*backward=*/false);
  if (name == "plimsoll::ssd_scan_backward") return ssd_scan(op, 1, /*backward=*/true);
  if (name == "plimsoll::causal_conv1d") return kScratch.inner_contiguous_copy(tensor(op, 0));
  if (name == "plimsoll::causal_conv1d_backward") return causal_conv1d_backward(op);
  return std::nullopt;
}

}  // namespace plimsoll::ops
