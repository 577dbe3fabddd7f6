// Implements SwiGLU and GeGLU on CUDA, element by element.
#include "ops/device_support.cuh"
#include "ops/dtype_switch.h"
#include "ops/layers/swiglu.h"
#include "ops/rows.h"

namespace plimsoll::cuda {

namespace {

// The gate silu(x) = x share(x) with share the sigmoid; the derivative of the share is share (1 - share).
struct Silu {
  template <typename A>
  __device__ static A share(A x) {
    return 1 / (exponential(-x) + 1);
  }
  template <typename A>
  __device__ static A slope(A) {
    return 1;
  }
};

// The gate gelu in its tanh form, x share(x) with share = 1 / (1 + exp(-2u)), and the slope d(2u)/dx. Beyond 10 it is
// x or 0 to the last bit.
struct Gelu {
  static constexpr double kTwice = 1.5957691216057308, kCube = 0.044715;  // 2 sqrt(2 / pi)
  template <typename A>
  __device__ static A near(A x) {
    return x > A(10) ? A(10) : x < A(-10) ? A(-10) : x;
  }
  template <typename A>
  __device__ static A share(A x) {
    const A at = near(x);
    return 1 / (1 + exponential(-(at * A(kTwice) * (1 + at * at * A(kCube)))));
  }
  template <typename A>
  __device__ static A slope(A x) {
    const A at = near(x);
    return A(kTwice) * (1 + at * at * A(3 * kCube));
  }
};

// The position of this thread: blocks of (columns, rows) threads, `column_blocks` blocks across.
struct Cell {
  int64_t row, column;
};
template <int pack>
__device__ inline Cell cell(int64_t column_blocks) {
  return {blockIdx.x / column_blocks * blockDim.y + threadIdx.y,
          (blockIdx.x % column_blocks * blockDim.x + threadIdx.x) * pack};
}

template <typename Gate, typename T, int pack>
__global__ void __launch_bounds__(256) gated(const T* gate_up, int64_t stride, T* y, int64_t y_stride, int64_t rows,
                                             int64_t width, int64_t column_blocks) {
  const Cell at = cell<pack>(column_blocks);
  if (at.row >= rows || at.column >= width) return;
  const T* from = gate_up + at.row * stride + at.column;
  const auto gates = load_pack<pack>(from), ups = load_pack<pack>(from + width);
  Pack<T, pack> result;
#pragma unroll
  for (int j = 0; j < pack; ++j) {
    const auto x = widen(gates[j]);
    result[j] = narrow<T>(x * Gate::share(x) * widen(ups[j]));
  }
  store_pack(y + at.row * y_stride + at.column, result);
}

template <typename Gate, typename T, int pack>
__global__ void __launch_bounds__(256)
    gated_backward(const T* grad, int64_t grad_stride, const T* gate_up, int64_t stride, T* grad_gate_up,
                   int64_t out_stride, int64_t rows, int64_t width, int64_t column_blocks) {
  const Cell at = cell<pack>(column_blocks);
  if (at.row >= rows || at.column >= width) return;
  const T* from = gate_up + at.row * stride + at.column;
  const auto grads = load_pack<pack>(grad + at.row * grad_stride + at.column);
  const auto gates = load_pack<pack>(from), ups = load_pack<pack>(from + width);
  Pack<T, pack> of_gate, of_up;
#pragma unroll
  for (int j = 0; j < pack; ++j) {
    const auto x = widen(gates[j]), d = widen(grads[j]);
    const auto share = Gate::share(x), value = x * share;
    of_gate[j] = narrow<T>(d * widen(ups[j]) * (share + value * (1 - share) * Gate::slope(x)));
    of_up[j] = narrow<T>(d * value);
  }
  T* to = grad_gate_up + at.row * out_stride + at.column;
  store_pack(to, of_gate);
  store_pack(to + width, of_up);
}

struct Grid {
  dim3 grid, block;
  int64_t column_blocks;
};
Grid grid_of(int64_t rows, int64_t width, int pack) {
  constexpr int64_t kThreads = 256;
  const int64_t across = row_threads(width / pack, kThreads), down = kThreads / across;
  const int64_t column_blocks = ops::div_up(width, across * pack);
  return {dim3(static_cast<unsigned>(ops::div_up(rows, down) * column_blocks)),
          dim3(static_cast<unsigned>(across), static_cast<unsigned>(down)), column_blocks};
}

template <typename T>
bool wide(const void* data, int64_t stride, int64_t width) {
  constexpr int pack = 16 / sizeof(T);
  return width % pack == 0 && packs(data, stride, sizeof(T), pack);
}

template <typename Work>
void with_gate(Gate gate, Work work) {
  gate == Gate::silu ? work.template operator()<Silu>() : work.template operator()<Gelu>();
}

}  // namespace

void launch_gated(Gate gate, const ops::ConstRows& gate_up, const ops::Rows& y, int64_t rows, int64_t width,
                  cudaStream_t stream) {
  if (rows * width == 0) return;
  with_gate(gate, [&]<typename G>() {
    with_type(y.dtype, [&]<typename T>() {
      const auto run = [&]<int pack>() {
        const Grid grid = grid_of(rows, width, pack);
        launch(&gated<G, T, pack>, grid.grid, grid.block, 0, stream, static_cast<const T*>(gate_up.data),
               gate_up.stride, static_cast<T*>(y.data), y.stride, rows, width, grid.column_blocks);
      };
      const bool in_packs = wide<T>(gate_up.data, gate_up.stride, width) && wide<T>(y.data, y.stride, width);
      in_packs ? run.template operator()<16 / sizeof(T)>() : run.template operator()<1>();
    });
  });
}

void launch_gated_backward(Gate gate, const ops::ConstRows& grad, const ops::ConstRows& gate_up,
                           const ops::Rows& grad_gate_up, int64_t rows, int64_t width, cudaStream_t stream) {
  if (rows * width == 0) return;
  with_gate(gate, [&]<typename G>() {
    with_type(gate_up.dtype, [&]<typename T>() {
      const auto run = [&]<int pack>() {
        const Grid grid = grid_of(rows, width, pack);
        launch(&gated_backward<G, T, pack>, grid.grid, grid.block, 0, stream, static_cast<const T*>(grad.data),
               grad.stride, static_cast<const T*>(gate_up.data), gate_up.stride, static_cast<T*>(grad_gate_up.data),
               grad_gate_up.stride, rows, width, grid.column_blocks);
      };
      const bool in_packs = wide<T>(grad.data, grad.stride, width) && wide<T>(gate_up.data, gate_up.stride, width) &&
                            wide<T>(grad_gate_up.data, grad_gate_up.stride, width);
      in_packs ? run.template operator()<16 / sizeof(T)>() : run.template operator()<1>();
    });
  });
}

}  // namespace plimsoll::cuda
