#include "ops/cuda_plan.h"
#include "ops/dtype_switch.h"
#include "ops/optimizer/gradient_norm_kernels.cuh"
#include "ops/optimizer/gradient_norm_launch.h"

namespace plimsoll::cuda {

void launch_gradient_norm(const void* data, DType dtype, int64_t count, double* partials, float* norm, float* skipped,
                          cudaStream_t stream) {
  const int64_t blocks = ops::div_up(count, ops::kCudaNormBlock);
  if (blocks > 0)
    with_type(dtype, [&]<typename T>() {
      constexpr int pack = 16 / sizeof(T);
      const auto kernel = packs(data, 0, sizeof(T), pack) ? &sum_squares<T, pack> : &sum_squares<T, 1>;
      launch(kernel, dim3(static_cast<unsigned>(blocks)), dim3(kSumThreads), 0, stream, static_cast<const T*>(data),
             count, ops::kCudaNormBlock, partials);
    });
  launch(&finish_norm, dim3(1), dim3(kSumThreads), 0, stream, static_cast<const double*>(partials), blocks, norm,
         skipped);
}

}  // namespace plimsoll::cuda
