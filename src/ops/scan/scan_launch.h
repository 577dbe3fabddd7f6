// Declares the CUDA launchers of the state-space scan and of the causal convolution.
#pragma once

#include <cstdint>

#include "ops/scan/conv_kernels_cpu.h"
#include "ops/scan/ssd_kernels_cpu.h"
#include "ops/scan/ssd_scan_chunks.h"
#include "plimsoll/trace.h"

// The launchers of the causal convolution's CUDA kernels, on raw device memory: no tensors, no allocation, no
// waiting.

typedef struct CUstream_st* cudaStream_t;

namespace plimsoll::cuda {

/// The operands of the convolution; strides are in elements. The filter and the bias have a type of their own.
struct CausalConv {
  const void* x = nullptr;  ///< [batch, time, channels], contiguous channels
  DType dtype = DType::float32;
  int64_t batch_stride = 0, time_stride = 0;
  const void* weight = nullptr;  ///< [channels, taps]
  const void* bias = nullptr;    ///< [channels]
  DType weight_dtype = DType::float32;
  int64_t channel_stride = 0, tap_stride = 0;  ///< strides of the filter
  int64_t bias_stride = 0;
  int64_t batch = 0, time = 0, channels = 0, taps = 0;
  bool reverse = false;
};

/// Returns the number of blocks of positions; each block has its own partial sums.
inline int64_t conv_tasks(int64_t batch, int64_t time) {
  const int64_t block = ops::conv_block(time);
  return batch * ((time + block - 1) / block);
}

/// Computes y [batch, time, channels], contiguous.
void launch_causal_conv(const CausalConv& in, void* y, cudaStream_t stream);

/// Computes dx, in the layout of y, and dweight [channels, taps] and dbias [channels], contiguous, of weight_dtype.
/// `shares` is scratch, float32 (float64 for float64): [conv_tasks(), kConvTaps + 1, channels].
void launch_causal_conv_backward(const CausalConv& in, const void* grad_y, int64_t grad_batch_stride,
                                 int64_t grad_time_stride, void* dx, void* dweight, void* dbias, void* shares,
                                 cudaStream_t stream);

}  // namespace plimsoll::cuda

// The launchers of the state-space scan's CUDA kernels, on raw device memory: no tensors, no allocation, no
// waiting. Between them the operator multiplies tiles (scan_cuda.cpp). The tiles are those of
// ops/scan/ssd_scan_chunks.h; "S" is float32, or float64 for operands of float64.

typedef struct CUstream_st* cudaStream_t;

namespace plimsoll::cuda {

/// The chunks [first, first + tasks) of the batch x chunks.
struct SsdPanel {
  ops::SsdShape shape{};
  DType dtype = DType::float32;
  int64_t first = 0, tasks = 0;
};

/// Computes dt and the sums of dt A of each head's positions, S.
void launch_ssd_decays(const SsdPanel& panel, const ops::SsdTensor& dt, const void* a, void* steps, void* sums,
                       cudaStream_t stream);

/// The factor that a row is multiplied by when it is copied into a tile.
enum class SsdWeight : uint8_t {
  none,
  arriving,  ///< exp(s_i): for the state that enters
  leaving,   ///< exp(s_last - s_i) dt_i: for the state that leaves
};
/// Packs rows into [chunks, heads, L, width]; `grouped`: [chunks, groups, L, heads / groups, width].
void launch_ssd_pack(const SsdPanel& panel, const ops::SsdTensor& from, int64_t heads, int64_t width, SsdWeight weight,
                     bool grouped, const void* steps, const void* sums, void* to, cudaStream_t stream);

/// Computes states [batch, heads, chunks, state, width], S, from the amount that each chunk adds (`local`). They are
/// the initial states of the panel's chunks and of the next chunk. Panels run in order. `local` is not read if
/// sequences are one chunk.
void launch_ssd_pass_states(const SsdPanel& panel, const void* local, const void* sums, void* states,
                            cudaStream_t stream);
/// Computes the gradients of the states that leave each chunk. Panels run from the last to the first.
void launch_ssd_pass_gradients(const SsdPanel& panel, const void* local, const void* sums, void* gradients,
                               cudaStream_t stream);

/// Computes rows of L + N: the weights exp(s_i - s_j) dt_j of scores up to the diagonal and 0 above it, then exp(s_i)
/// C_i.
void launch_ssd_left(const SsdPanel& panel, const void* scores, const void* c, const void* steps, const void* sums,
                     void* left, cudaStream_t stream);
/// Computes L rows of a head, then the N rows of the chunk's `states`, rounded to the operands' type.
void launch_ssd_right(const SsdPanel& panel, const ops::SsdTensor& rows, const void* states, void* right,
                      cudaStream_t stream);
/// Rounds only the states to the operands' type.
void launch_ssd_narrow_states(const SsdPanel& panel, const void* states, void* to, cudaStream_t stream);

/// Computes out [batch, time, heads, width] = product + D rows.
void launch_ssd_add_through(const SsdPanel& panel, const void* product, const ops::SsdTensor& rows, const void* d,
                            void* out, cudaStream_t stream);

/// Computes the backward of the weights within a chunk. It yields the gradient of scores, summed over the heads of a
/// group. In `products`, each product is multiplied by its score and decay. The first L rows of `left` [L + N, L]
/// become the weights; the last N become B_j leaving.
void launch_ssd_weigh_back(const SsdPanel& panel, const void* scores, const void* b, const void* steps,
                           const void* sums, void* products, void* score_gradients, void* left, cudaStream_t stream);
/// Computes the sums of the rows and columns of `products`, the first terms of the gradients of dt and of the sums.
void launch_ssd_sum_products(const SsdPanel& panel, const void* products, const void* steps, void* step_gradients,
                             void* sum_gradients, cudaStream_t stream);
/// Computes the terms from `part`, dy H^T, of the gradients of C and of the sums.
void launch_ssd_arriving_back(const SsdPanel& panel, const void* part, const void* c, const void* sums, void* c_sums,
                              void* sum_gradients, cudaStream_t stream);
/// Computes the terms from `part`, x G^T, of the gradients of B, of dt and of the sums.
void launch_ssd_leaving_back(const SsdPanel& panel, const void* part, const void* b, const void* steps,
                             const void* sums, void* b_sums, void* step_gradients, void* sum_gradients, void* given,
                             cudaStream_t stream);
/// Computes the gradient of B or C, [batch, time, groups, state]: `sums` + `product`.
void launch_ssd_store_sum(const SsdPanel& panel, const void* sums, const void* product, void* out, cudaStream_t stream);

/// The arguments of the last kernel. It computes the gradient of dt [batch, time, heads], S, and each chunk's share of
/// the gradients of A and D [batch x chunks, heads], S.
struct SsdFinish {
  const void *steps, *sums, *step_gradients, *sum_gradients, *given;
  const void *states, *state_gradients;
  ops::SsdTensor x, dy;
  const void* a;
  void *dt, *a_shares, *d_shares;
};
void launch_ssd_finish(const SsdPanel& panel, const SsdFinish& args, cudaStream_t stream);

/// Computes to [heads] = the sum of shares [count, heads], S.
void launch_ssd_sum_shares(DType dtype, const void* shares, int64_t count, int64_t heads, void* to,
                           cudaStream_t stream);

}  // namespace plimsoll::cuda
