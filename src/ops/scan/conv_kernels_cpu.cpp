#include "ops/scan/conv_kernels_cpu.h"

#include "ops/kernel_dtypes.h"
#include "ops/lanes.h"
#include "ops/rows.h"
#include "plimsoll/error.h"

namespace plimsoll::ops {

using c10::BFloat16;
using c10::Half;
using namespace lanes;

namespace {

/// The filter, the bias and the last inputs of sixteen channels.
template <typename T>
struct Window {
  Vector<T> taps[kConvTaps], bias, x[kConvTaps];

  PLIMSOLL_INLINE Window(const CausalConv& in, int64_t channel, int64_t partial) {
    const auto* from = static_cast<const Scalar<T>*>(in.taps) + channel;
    for (int64_t k = 0; k < kConvTaps; ++k) taps[k] = load_some(from + k * in.channels, partial);
    bias = load_some(from + kConvTaps * in.channels, partial);
    for (Vector<T>& each : x) each = Vector<T>{};
  }
  PLIMSOLL_INLINE void push(const Vector<T>& next) {
    for (int64_t k = 0; k + 1 < kConvTaps; ++k) x[k] = x[k + 1];
    x[kConvTaps - 1] = next;
  }
  PLIMSOLL_INLINE Vector<T> sum() const {
    Vector<T> total = bias;
    for (int64_t k = 0; k < kConvTaps; ++k) total += taps[k] * x[k];
    return total;
  }
};

struct Block {
  int64_t batch, begin, end;  // positions in the order of the scan
};
PLIMSOLL_INLINE Block block_of(const CausalConv& in, int64_t task) {
  const int64_t size = conv_block(in.time), blocks = div_up(in.time, size), first = task % blocks * size;
  return {task / blocks, first, first + size < in.time ? first + size : in.time};
}
PLIMSOLL_INLINE int64_t time_of(const CausalConv& in, int64_t position) {
  return in.reverse ? in.time - 1 - position : position;
}

template <typename T>
PLIMSOLL_INLINE void convolve(const CausalConv& in, void* y, int64_t begin, int64_t end) {
  for (int64_t task = begin; task < end; ++task) {
    const Block block = block_of(in, task);
    const T* from = static_cast<const T*>(in.x) + block.batch * in.batch_stride;
    T* to = static_cast<T*>(y) + block.batch * in.time * in.channels;
    PLIMSOLL_FOR_LANES(c, partial, in.channels) {
      Window<T> window(in, c, partial);
      const int64_t before = block.begin < kConvTaps - 1 ? 0 : block.begin - (kConvTaps - 1);
      for (int64_t i = before; i < block.end; ++i) {
        const int64_t t = time_of(in, i);
        window.push(load_some(from + t * in.time_stride + c, partial));
        if (i < block.begin) continue;
        const Vector<T> v = window.sum();
        store_some(to + t * in.channels + c, v / (lanes::exp(-v) + 1), partial);
      }
    }
  }
}

template <typename T>
PLIMSOLL_INLINE void convolve_backward(const CausalConv& in, const void* grad_y, int64_t grad_batch_stride,
                                       int64_t grad_time_stride, void* dx, void* shares, int64_t begin, int64_t end) {
  using V = Vector<T>;
  for (int64_t task = begin; task < end; ++task) {
    const Block block = block_of(in, task);
    const T* from = static_cast<const T*>(in.x) + block.batch * in.batch_stride;
    const T* dy = static_cast<const T*>(grad_y) + block.batch * grad_batch_stride;
    T* to = static_cast<T*>(dx) + block.batch * in.time * in.channels;
    auto* share = static_cast<Scalar<T>*>(shares) + task * (kConvTaps + 1) * in.channels;
    PLIMSOLL_FOR_LANES(c, partial, in.channels) {
      Window<T> window(in, c, partial);
      V sums[kConvTaps + 1] = {}, gradients[kConvTaps] = {};  // gradients of the sums before SiLU, the newest last
      const int64_t before = block.begin < kConvTaps - 1 ? 0 : block.begin - (kConvTaps - 1);
      // The gradient of a position comes from it and the three positions after it.
      for (int64_t i = before; i < block.end + kConvTaps - 1; ++i) {
        V gradient{};
        if (i < in.time) {
          const int64_t t = time_of(in, i);
          window.push(load_some(from + t * in.time_stride + c, partial));
          if (i < block.begin) continue;
          const V v = window.sum(), sigmoid = 1 / (lanes::exp(-v) + 1);
          gradient = load_some(dy + t * grad_time_stride + c, partial) * sigmoid * (1 + v * (1 - sigmoid));
          if (i < block.end) {
            for (int64_t k = 0; k < kConvTaps; ++k) sums[k] += gradient * window.x[k];
            sums[kConvTaps] += gradient;
          }
        }
        for (int64_t k = 0; k + 1 < kConvTaps; ++k) gradients[k] = gradients[k + 1];
        gradients[kConvTaps - 1] = gradient;
        if (i < block.begin + kConvTaps - 1) continue;
        V total{};
        for (int64_t k = 0; k < kConvTaps; ++k) total += window.taps[k] * gradients[kConvTaps - 1 - k];
        store_some(to + time_of(in, i - (kConvTaps - 1)) * in.channels + c, total, partial);
      }
      for (int64_t k = 0; k <= kConvTaps; ++k) store_some(share + k * in.channels + c, sums[k], partial);
    }
  }
}

}  // namespace

PLIMSOLL_KERNELS(convolve, (const CausalConv& in, void* y, int64_t begin, int64_t end), (in, y, begin, end))
PLIMSOLL_KERNELS(convolve_backward,
                 (const CausalConv& in, const void* grad_y, int64_t grad_batch_stride, int64_t grad_time_stride,
                  void* dx, void* shares, int64_t begin, int64_t end),
                 (in, grad_y, grad_batch_stride, grad_time_stride, dx, shares, begin, end))

void causal_conv_blocks(const CausalConv& in, void* y, int64_t begin, int64_t end) {
  pick_convolve(in.dtype, in, y, begin, end);
}
void causal_conv_backward_blocks(const CausalConv& in, const void* grad_y, int64_t grad_batch_stride,
                                 int64_t grad_time_stride, void* dx, void* shares, int64_t begin, int64_t end) {
  pick_convolve_backward(in.dtype, in, grad_y, grad_batch_stride, grad_time_stride, dx, shares, begin, end);
}

}  // namespace plimsoll::ops
