#include "ops/dtype_switch.h"
#include "ops/scan/causal_conv1d_kernels.cuh"
#include "ops/scan/ssd_scan_kernels.cuh"

namespace plimsoll::cuda {
namespace {

constexpr int kConvThreads = 128;

unsigned blocks_for(int64_t threads) {
  return static_cast<unsigned>(div_up_blocks(index32(threads), kConvThreads));
}

/// Returns the threads of a convolution; each has a channel of a block of positions.
int64_t threads_of(const CausalConv& in) {
  for (const int64_t count : {in.time, (ops::kConvTaps + 1) * in.channels, in.time_stride}) index32(count);
  return conv_tasks(in.batch, in.time) * in.channels;
}

}  // namespace

void launch_causal_conv(const CausalConv& in, void* y, cudaStream_t stream) {
  const int64_t threads = threads_of(in);
  with_type(in.dtype, [&]<typename T>() {
    launch(convolve<T>, blocks_for(threads), kConvThreads, 0, stream, in, threads, static_cast<T*>(y));
  });
}

void launch_causal_conv_backward(const CausalConv& in, const void* grad_y, int64_t grad_batch_stride,
                                 int64_t grad_time_stride, void* dx, void* dweight, void* dbias, void* shares,
                                 cudaStream_t stream) {
  const int64_t threads = threads_of(in), tasks = conv_tasks(in.batch, in.time);
  index32(grad_time_stride);
  with_type(in.dtype, [&]<typename T>() {
    using S = Accumulate<T>;
    launch(convolve_backward<T>, blocks_for(threads), kConvThreads, 0, stream, in, threads,
           static_cast<const T*>(grad_y), grad_batch_stride, grad_time_stride, static_cast<T*>(dx),
           static_cast<S*>(shares));
    launch(sum_conv_shares<S>, blocks_for((ops::kConvTaps + 1) * in.channels), kConvThreads, 0, stream,
           static_cast<const S*>(shares), tasks, in, dweight, dbias);
  });
}

namespace {

constexpr int kThreads = 256;

/// Returns a grid with a thread for each of `inner` elements of each head or group of each chunk of the panel.
dim3 grid_of(int64_t inner, int64_t heads, const SsdPanel& panel) {
  return {static_cast<unsigned>(div_up_blocks(inner, kThreads)), static_cast<unsigned>(heads),
          static_cast<unsigned>(panel.tasks)};
}

/// Returns a grid with a block for each position of each group of each chunk of the panel.
dim3 grid_of_positions(const SsdPanel& panel) {
  return {static_cast<unsigned>(panel.shape.longest()), static_cast<unsigned>(panel.shape.groups),
          static_cast<unsigned>(panel.tasks)};
}

template <typename T>
Accumulate<T>* wide(void* data) {
  return static_cast<Accumulate<T>*>(data);
}
template <typename T>
const Accumulate<T>* wide(const void* data) {
  return static_cast<const Accumulate<T>*>(data);
}

/// Calls work.operator()<S>() with the type in which sums are computed.
template <typename Work>
void with_wide_type(DType dtype, Work work) {
  if (dtype == DType::float64) return work.template operator()<double>();
  work.template operator()<float>();
}

template <bool back>
void pass(const SsdPanel& panel, const void* local, const void* sums, void* states, cudaStream_t stream) {
  const int64_t chunks = panel.shape.chunks();
  const int64_t sequences = (panel.first + panel.tasks - 1) / chunks - panel.first / chunks + 1;
  with_wide_type(panel.dtype, [&]<typename S>() {
    const dim3 grid(static_cast<unsigned>(div_up_blocks(panel.shape.heads * panel.shape.state_elements(), kThreads)),
                    static_cast<unsigned>(sequences));
    launch(ssd_pass<S, back>, grid, kThreads, 0, stream, panel, static_cast<const S*>(local),
           static_cast<const S*>(sums), static_cast<S*>(states));
  });
}

}  // namespace

void launch_ssd_decays(const SsdPanel& panel, const ops::SsdTensor& dt, const void* a, void* steps, void* sums,
                       cudaStream_t stream) {
  with_wide_type(panel.dtype, [&]<typename S>() {
    launch(ssd_decays<S>, static_cast<unsigned>(div_up_blocks(panel.tasks * panel.shape.heads, kThreads / kWarp)),
           kThreads, 0, stream, panel, dt, static_cast<const S*>(a), static_cast<S*>(steps), static_cast<S*>(sums));
  });
}

void launch_ssd_pack(const SsdPanel& panel, const ops::SsdTensor& from, int64_t heads, int64_t width, SsdWeight weight,
                     bool grouped, const void* steps, const void* sums, void* to, cudaStream_t stream) {
  with_type(panel.dtype, [&]<typename T>() {
    launch(ssd_pack<T>, grid_of(panel.shape.longest() * width, heads, panel), kThreads, 0, stream, panel, from,
           static_cast<int>(width), weight, grouped, wide<T>(steps), wide<T>(sums), static_cast<T*>(to));
  });
}

void launch_ssd_pass_states(const SsdPanel& panel, const void* local, const void* sums, void* states,
                            cudaStream_t stream) {
  pass<false>(panel, local, sums, states, stream);
}
void launch_ssd_pass_gradients(const SsdPanel& panel, const void* local, const void* sums, void* gradients,
                               cudaStream_t stream) {
  pass<true>(panel, local, sums, gradients, stream);
}

void launch_ssd_left(const SsdPanel& panel, const void* scores, const void* c, const void* steps, const void* sums,
                     void* left, cudaStream_t stream) {
  const int64_t length = panel.shape.longest();
  with_type(panel.dtype, [&]<typename T>() {
    launch(ssd_left<T>, grid_of(length * (length + panel.shape.state), panel.shape.heads, panel), kThreads, 0, stream,
           panel, wide<T>(scores), static_cast<const T*>(c), wide<T>(steps), wide<T>(sums), static_cast<T*>(left));
  });
}

void launch_ssd_right(const SsdPanel& panel, const ops::SsdTensor& rows, const void* states, void* right,
                      cudaStream_t stream) {
  const ops::SsdShape& s = panel.shape;
  with_type(panel.dtype, [&]<typename T>() {
    launch(ssd_right<T>, grid_of((s.longest() + s.state) * s.width, s.heads, panel), kThreads, 0, stream, panel, rows,
           wide<T>(states), static_cast<T*>(right));
  });
}

void launch_ssd_narrow_states(const SsdPanel& panel, const void* states, void* to, cudaStream_t stream) {
  with_type(panel.dtype, [&]<typename T>() {
    launch(ssd_narrow_states<T>, grid_of(panel.shape.state_elements(), panel.shape.heads, panel), kThreads, 0, stream,
           panel, wide<T>(states), static_cast<T*>(to));
  });
}

void launch_ssd_add_through(const SsdPanel& panel, const void* product, const ops::SsdTensor& rows, const void* d,
                            void* out, cudaStream_t stream) {
  const ops::SsdShape& s = panel.shape;
  with_type(panel.dtype, [&]<typename T>() {
    launch(ssd_add_through<T>, grid_of(s.longest() * s.width, s.heads, panel), kThreads, 0, stream, panel,
           wide<T>(product), rows, wide<T>(d), static_cast<T*>(out));
  });
}

void launch_ssd_weigh_back(const SsdPanel& panel, const void* scores, const void* b, const void* steps,
                           const void* sums, void* products, void* score_gradients, void* left, cudaStream_t stream) {
  const ops::SsdShape& s = panel.shape;
  with_type(panel.dtype, [&]<typename T>() {
    launch(ssd_weigh_back<T>, grid_of((s.longest() + s.state) * s.longest(), s.groups, panel), kThreads, 0, stream,
           panel, wide<T>(scores), static_cast<const T*>(b), wide<T>(steps), wide<T>(sums), wide<T>(products),
           static_cast<T*>(score_gradients), static_cast<T*>(left));
  });
}

void launch_ssd_sum_products(const SsdPanel& panel, const void* products, const void* steps, void* step_gradients,
                             void* sum_gradients, cudaStream_t stream) {
  with_wide_type(panel.dtype, [&]<typename S>() {
    launch(ssd_sum_products<S>, static_cast<unsigned>(panel.tasks * panel.shape.heads), kThreads, 0, stream, panel,
           static_cast<const S*>(products), static_cast<const S*>(steps), static_cast<S*>(step_gradients),
           static_cast<S*>(sum_gradients));
  });
}

void launch_ssd_arriving_back(const SsdPanel& panel, const void* part, const void* c, const void* sums, void* c_sums,
                              void* sum_gradients, cudaStream_t stream) {
  with_type(panel.dtype, [&]<typename T>() {
    using S = Accumulate<T>;
    launch(ssd_states_back<T, false>, grid_of_positions(panel), kStateWarps * kWarp, 0, stream, panel, wide<T>(part),
           static_cast<const T*>(c), static_cast<const S*>(nullptr), wide<T>(sums), wide<T>(c_sums),
           static_cast<S*>(nullptr), wide<T>(sum_gradients), static_cast<S*>(nullptr));
  });
}

void launch_ssd_leaving_back(const SsdPanel& panel, const void* part, const void* b, const void* steps,
                             const void* sums, void* b_sums, void* step_gradients, void* sum_gradients, void* given,
                             cudaStream_t stream) {
  with_type(panel.dtype, [&]<typename T>() {
    launch(ssd_states_back<T, true>, grid_of_positions(panel), kStateWarps * kWarp, 0, stream, panel, wide<T>(part),
           static_cast<const T*>(b), wide<T>(steps), wide<T>(sums), wide<T>(b_sums), wide<T>(step_gradients),
           wide<T>(sum_gradients), wide<T>(given));
  });
}

void launch_ssd_store_sum(const SsdPanel& panel, const void* sums, const void* product, void* out,
                          cudaStream_t stream) {
  const ops::SsdShape& s = panel.shape;
  with_type(panel.dtype, [&]<typename T>() {
    launch(ssd_store_sum<T>, grid_of(s.longest() * s.state, s.groups, panel), kThreads, 0, stream, panel, wide<T>(sums),
           wide<T>(product), static_cast<T*>(out));
  });
}

void launch_ssd_finish(const SsdPanel& panel, const SsdFinish& args, cudaStream_t stream) {
  with_type(panel.dtype, [&]<typename T>() {
    launch(ssd_finish<T>, static_cast<unsigned>(panel.tasks * panel.shape.heads), kThreads, 0, stream, panel, args,
           args.x, args.dy);
  });
}

void launch_ssd_sum_shares(DType dtype, const void* shares, int64_t count, int64_t heads, void* to,
                           cudaStream_t stream) {
  with_wide_type(dtype, [&]<typename S>() {
    launch(ssd_sum_shares<S>, static_cast<unsigned>(heads), kThreads, 0, stream, static_cast<const S*>(shares), count,
           static_cast<S*>(to));
  });
}

}  // namespace plimsoll::cuda
