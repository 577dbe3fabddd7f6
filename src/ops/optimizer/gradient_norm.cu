#include "ops/dtype_switch.h"
#include "ops/optimizer/gradient_norm_kernels.cuh"
#include "ops/optimizer/gradient_norm_launch.h"
#include "ops/rows.h"

namespace plimsoll::cuda {

void launch_block_sums(const void* data, DType dtype, int64_t count, double* partials, cudaStream_t stream) {
  const int64_t blocks = ops::div_up(count, ops::kCudaNormBlock);
  if (blocks == 0) return;
  with_type(dtype, [&]<typename T>() {
    constexpr int pack = 16 / sizeof(T);
    const auto kernel = packs(data, 0, sizeof(T), pack) ? &sum_squares<T, pack> : &sum_squares<T, 1>;
    launch(kernel, dim3(static_cast<unsigned>(blocks)), dim3(kSumThreads), 0, stream, static_cast<const T*>(data),
           count, ops::kCudaNormBlock, partials);
  });
}

void launch_gradient_norm(const void* data, DType dtype, int64_t count, double* partials, float* norm, float* skipped,
                          cudaStream_t stream) {
  launch_block_sums(data, dtype, count, partials, stream);
  launch(&finish_norm, dim3(1), dim3(kSumThreads), 0, stream, static_cast<const double*>(partials),
         ops::div_up(count, ops::kCudaNormBlock), norm, skipped);
}

void launch_norms_of_blocks(const double* sums, int64_t ranks, int64_t of_rank, const BlocksOfGradients& of,
                            int gradients, float* norms, int64_t stride, float* skipped, cudaStream_t stream) {
  if (gradients == 0) return;
  launch(&finish_norms, dim3(static_cast<unsigned>(gradients)), dim3(kSumThreads), 0, stream, sums, ranks, of_rank, of,
         norms, stride, skipped);
}

}  // namespace plimsoll::cuda
