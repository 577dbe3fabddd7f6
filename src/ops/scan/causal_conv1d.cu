#include "ops/dtype_switch.h"
#include "ops/scan/causal_conv1d_kernels.cuh"

namespace plimsoll::cuda {
namespace {

constexpr int kThreads = 128;

unsigned blocks_for(int64_t threads) {
  return static_cast<unsigned>(div_up_blocks(threads, kThreads));
}

}  // namespace

void launch_causal_conv(const CausalConv& in, void* y, cudaStream_t stream) {
  const int64_t tasks = conv_tasks(in.batch, in.time);
  with_type(in.dtype, [&]<typename T>() {
    launch(convolve<T>, blocks_for(tasks * in.channels), kThreads, 0, stream, in, tasks, static_cast<T*>(y));
  });
}

void launch_causal_conv_backward(const CausalConv& in, const void* grad_y, int64_t grad_batch_stride,
                                 int64_t grad_time_stride, void* dx, void* dweight, void* dbias, void* shares,
                                 cudaStream_t stream) {
  const int64_t tasks = conv_tasks(in.batch, in.time);
  with_type(in.dtype, [&]<typename T>() {
    using S = Accumulate<T>;
    launch(convolve_backward<T>, blocks_for(tasks * in.channels), kThreads, 0, stream, in, tasks,
           static_cast<const T*>(grad_y), grad_batch_stride, grad_time_stride, static_cast<T*>(dx),
           static_cast<S*>(shares));
    launch(sum_conv_shares<S>, blocks_for((ops::kConvTaps + 1) * in.channels), kThreads, 0, stream,
           static_cast<const S*>(shares), tasks, in, dweight, dbias);
  });
}

}  // namespace plimsoll::cuda
