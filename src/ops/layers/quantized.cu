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
  const int64_t blocks = ops::quantized_blocks(width), warps = rows * blocks;
  if (warps == 0) return;
  with_type(weight.dtype, [&]<typename T>() {
    launch(quantize_blocks<T>, static_cast<unsigned>(div_up_blocks(warps, kThreads / kWarp, kMaxBlocks)), kThreads, 0,
           stream, static_cast<const T*>(weight.data), weight.stride, warps, blocks, width, four_bits, codes, scales);
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
  const int64_t pieces = ops::div_up(count, 8), tasks = (end - begin) * pieces;
  if (tasks == 0) return;
  index32(weight.width);
  with_type(out.dtype, [&]<typename T>() {
    const int64_t row_bytes = weight.four_bits ? weight.width / 2 : weight.width;
    const bool packed = weight.width % 8 == 0 && count % 8 == 0 && packs(out.data, out.stride, sizeof(T), 8) &&
                        packs(weight.codes, row_bytes, 1, weight.four_bits ? 4 : 8);
    const auto kernel = weight.four_bits ? dequantize_pieces<T, true> : dequantize_pieces<T, false>;
    launch(kernel, static_cast<unsigned>(div_up_blocks(tasks, kThreads, kMaxBlocks)), kThreads, 0, stream, weight,
           static_cast<T*>(out.data), out.stride, first, count, begin, pieces, tasks, packed);
  });
}

}  // namespace plimsoll::cuda
