// Computes the scratch of quantized linear layers.
#include "ops/quantized/quantized_plan.h"
#include "ops/workspace/scratch_row.h"

namespace plimsoll::ops {
namespace {

/// Returns the bytes of a dequantized piece of the weight, and on the CPU of the matmuls with it.
template <bool gpu>
std::optional<int64_t> quantized_linear(const Op& op, const ScratchDevice& on) {
  const View &x = tensor(op, 0), &codes = tensor(op, 1);
  const int64_t rows = codes.sizes[0], width = x.sizes.back(), bytes = element_bytes(x.dtype);
  if (elements(x.sizes) == 0 || rows == 0) return 0;
  const int64_t tile =
      gpu ? quantized_tile_rows(rows, width, bytes, kQuantizedGpuTileBytes) : quantized_tile_rows(rows, width, bytes);
  const int64_t total = on.contiguous_copy(x) + on.rounded(tile * width * bytes);
  if (gpu) return total;
  MaxMatmulScratch most(on);
  for (const int64_t tokens : piece_sizes(elements(x.sizes) / width, kQuantizedProductRows))
    for (const int64_t columns : piece_sizes(rows, tile))
      most.add(matrix(x.dtype, tokens, width), transposed(matrix(x.dtype, columns, width)),
               matrix(x.dtype, tokens, columns, rows));
  return total + most.bytes();
}

template <bool gpu>
std::optional<int64_t> quantized_linear_backward(const Op& op, const ScratchDevice& on) {
  const View &grad = tensor(op, 0), &codes = tensor(op, 1);
  const int64_t rows = codes.sizes[0], width = op.results.at(0).sizes.back(), bytes = element_bytes(grad.dtype);
  if (elements(grad.sizes) == 0 || width == 0) return 0;
  const int64_t tile = std::min(width, gpu ? quantized_tile_columns(rows, width, bytes, kQuantizedGpuTileBytes)
                                           : quantized_tile_columns(rows, width, bytes));
  const int64_t total = on.contiguous_copy(grad) + on.rounded(rows * tile * bytes);
  if (gpu) return total;
  MaxMatmulScratch most(on);
  for (const int64_t tokens : piece_sizes(elements(grad.sizes) / rows, kQuantizedProductRows))
    for (const int64_t columns : piece_sizes(width, tile))
      most.add(matrix(grad.dtype, tokens, rows), matrix(grad.dtype, rows, columns),
               matrix(grad.dtype, tokens, columns, width));
  return total + most.bytes();
}

constexpr ScratchRow kQuantizedScratch[] = {
    {"plimsoll::quantized_linear", quantized_linear<false>, quantized_linear<true>},
    {"plimsoll::quantized_linear_backward", quantized_linear_backward<false>, quantized_linear_backward<true>},
    {"plimsoll::quantize_weight", rows_copies<0>, rows_copies<0>},
    {"plimsoll::quantize_scales", no_scratch, no_scratch},
    {"plimsoll::dequantize_weight", no_scratch, no_scratch},
};

}  // namespace

std::span<const ScratchRow> quantized_scratch() {
  return kQuantizedScratch;
}

}  // namespace plimsoll::ops
