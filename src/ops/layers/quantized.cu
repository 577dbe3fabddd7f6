#include "ops/dtype_switch.h"
#include "ops/layers/layers_launch.h"
#include "ops/layers/quantized_kernels.cuh"

namespace plimsoll::cuda {
namespace {

constexpr int kThreads = 256;
constexpr int64_t kMaxBlocks = 1 << 11;

}  // namespace

void launch_quantize(const ops::ConstRows& weight, int64_t rows, int64_t width, bool four_bits, void* codes,
                     float* scales, cudaStream_t stream) {
  const int64_t warps = rows * ops::quantized_blocks(width);
  if (warps == 0) return;
  with_type(weight.dtype, [&]<typename T>() {
    launch(quantize_blocks<T>, static_cast<unsigned>(div_up_blocks(warps, kThreads / kWarp, kMaxBlocks)), kThreads, 0,
           stream, static_cast<const T*>(weight.data), weight.stride, rows, width, four_bits, codes, scales);
  });
}

void launch_quantize_scales(const float* scales, int64_t count, uint8_t* codes, float* second, cudaStream_t stream) {
  launch(mean_of_scales, 1, static_cast<unsigned>(ops::kScaleSums), 0, stream, scales, count, second);
  if (count == 0) return;
  launch(quantize_scale_groups, static_cast<unsigned>(ops::div_up(count, ops::kScaleGroup)),
         static_cast<unsigned>(ops::kScaleGroup), 0, stream, scales, count, codes, second);
}

void launch_dequantize(const ops::QuantizedWeight& weight, const ops::Rows& out, int64_t first, int64_t count,
                       int64_t begin, int64_t end, cudaStream_t stream) {
  const int64_t pieces = (end - begin) * ops::div_up(count, 8);
  if (pieces == 0) return;
  with_type(out.dtype, [&]<typename T>() {
    const int64_t row_bytes = weight.four_bits ? weight.width / 2 : weight.width;
    const bool packed = weight.width % 8 == 0 && count % 8 == 0 && packs(out.data, out.stride, sizeof(T), 8) &&
                        packs(weight.codes, row_bytes, 1, weight.four_bits ? 4 : 8);
    const bool few = pieces < (int64_t{1} << 31);  // also with the threads of a grid added
    const auto kernel = weight.four_bits
                            ? (few ? dequantize_pieces<T, true, uint32_t> : dequantize_pieces<T, true, int64_t>)
                            : (few ? dequantize_pieces<T, false, uint32_t> : dequantize_pieces<T, false, int64_t>);
    launch(kernel, static_cast<unsigned>(div_up_blocks(pieces, kThreads, kMaxBlocks)), kThreads, 0, stream, weight,
           static_cast<T*>(out.data), out.stride, first, count, begin, end, packed);
  });
}

}  // namespace plimsoll::cuda
