// Implements SwiGLU, GeGLU and rotary position embedding on CUDA, element by element.
#include <algorithm>

#include "ops/device_support.cuh"
#include "ops/dtype_switch.h"
#include "ops/layers/rope.h"
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

template <typename Gate, typename T, int pack>
__global__ void __launch_bounds__(256)
    gated(const T* gate_up, int64_t stride, T* y, int64_t y_stride, int32_t rows, int32_t width) {
  const Cell at = cell<pack>();
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
                   int64_t out_stride, int32_t rows, int32_t width) {
  const Cell at = cell<pack>();
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
        const CellGrid cells = cell_grid(rows, width, pack);
        launch(&gated<G, T, pack>, cells.grid, cells.block, 0, stream, static_cast<const T*>(gate_up.data),
               gate_up.stride, static_cast<T*>(y.data), y.stride, rows, width);
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
        const CellGrid cells = cell_grid(rows, width, pack);
        launch(&gated_backward<G, T, pack>, cells.grid, cells.block, 0, stream, static_cast<const T*>(grad.data),
               grad.stride, static_cast<const T*>(gate_up.data), gate_up.stride, static_cast<T*>(grad_gate_up.data),
               grad_gate_up.stride, rows, width);
      };
      const bool in_packs = wide<T>(grad.data, grad.stride, width) && wide<T>(gate_up.data, gate_up.stride, width) &&
                            wide<T>(grad_gate_up.data, grad_gate_up.stride, width);
      in_packs ? run.template operator()<16 / sizeof(T)>() : run.template operator()<1>();
    });
  });
}

namespace {

constexpr int kRopePairs = 256;    // pairs of one launch: their frequencies are an argument
constexpr int kRopeHeads = 8;      // heads of one thread
constexpr int kRopeThreads = 128;  // threads of a block

struct RopeFrequencies {
  double radians[kRopePairs];  // radians per position
};

// Computes in float64, so positions of millions stay exact to float32; the quarter turns are subtracted first.
__device__ inline void sine_cosine(double angle, float& sine, float& cosine) {
  const double quarters = rint(angle * 0.63661977236758134308);
  const double reduced = (angle - quarters * 1.5707963267948966192) - quarters * 6.123233995736766e-17;
  const float s = sinf(static_cast<float>(reduced)), c = cosf(static_cast<float>(reduced));
  const int quadrant = static_cast<int>(static_cast<long long>(quarters) & 3);
  const float a = (quadrant & 1) != 0 ? c : s, b = (quadrant & 1) != 0 ? s : c;
  sine = (quadrant & 2) != 0 ? -a : a;
  cosine = ((quadrant + 1) & 2) != 0 ? -b : b;
}
__device__ inline void sine_cosine(double angle, double& sine, double& cosine) {
  sine = sin(angle);
  cosine = cos(angle);
}

// Rotates the pairs [first_pair, first_pair + pairs) of each head. A thread reads both elements of a pair before it
// writes them, so `out` may be x. Grid: tokens x pairs, batch, groups of heads.
template <typename T, int pack>
__global__ void __launch_bounds__(kRopeThreads)
    rope(const T* x, T* out, ops::RopeStrides of_x, ops::RopeStrides of_out, int64_t first_batch, int32_t tokens,
         int32_t heads, int32_t width, const __grid_constant__ RopeFrequencies frequencies, int32_t first_pair,
         int32_t pairs, int64_t position, double direction) {
  using A = Accumulate<T>;
  const int32_t half = width / 2;
  const auto index = static_cast<unsigned>(grid_index()), packs = static_cast<unsigned>(pairs / pack);
  const int32_t token = static_cast<int32_t>(index / packs), pair = static_cast<int32_t>(index % packs) * pack;
  if (token >= tokens) return;
  A sine[pack], cosine[pack];
#pragma unroll
  for (int j = 0; j < pack; ++j)
    sine_cosine(frequencies.radians[pair + j] * (direction * static_cast<double>(position + token)), sine[j],
                cosine[j]);
  const int64_t batch = first_batch + blockIdx.y;
  const int32_t begin = static_cast<int32_t>(blockIdx.z) * kRopeHeads;
  const int32_t end = begin + kRopeHeads < heads ? begin + kRopeHeads : heads;
  const T* from = x + batch * of_x.batch + token * of_x.token + begin * of_x.head + first_pair + pair;
  T* to = out + batch * of_out.batch + token * of_out.token + begin * of_out.head + first_pair + pair;
  for (int32_t head = begin; head < end; ++head, from += of_x.head, to += of_out.head) {
    const auto first = load_pack<pack>(from), second = load_pack<pack>(from + half);
    Pack<T, pack> a, b;
#pragma unroll
    for (int j = 0; j < pack; ++j) {
      a[j] = narrow<T>(widen(first[j]) * cosine[j] - widen(second[j]) * sine[j]);
      b[j] = narrow<T>(widen(second[j]) * cosine[j] + widen(first[j]) * sine[j]);
    }
    store_pack(to, a);
    store_pack(to + half, b);
  }
}

template <typename T, int pack>
void rotate(const ops::Rope& args, int64_t first_batch, int64_t first_pair, cudaStream_t stream) {
  RopeFrequencies frequencies{};
  const int64_t pairs = std::min<int64_t>(kRopePairs, args.width / 2 - first_pair);
  std::copy_n(args.frequencies + first_pair, pairs, frequencies.radians);
  const dim3 grid(static_cast<unsigned>(ops::div_up(args.tokens * (pairs / pack), kRopeThreads)),
                  static_cast<unsigned>(std::min(kMaxGridSize, args.batch - first_batch)),
                  static_cast<unsigned>(ops::div_up(args.heads, kRopeHeads)));
  launch(&rope<T, pack>, grid, dim3(kRopeThreads), 0, stream, static_cast<const T*>(args.x), static_cast<T*>(args.out),
         args.from, args.to, first_batch, args.tokens, args.heads, args.width, frequencies, first_pair, pairs,
         args.position, args.inverse ? -1.0 : 1.0);
}

}  // namespace

void launch_rope(const ops::Rope& args, cudaStream_t stream) {
  if (args.batch * args.tokens * args.heads * args.width == 0) return;
  check(args.heads < kMaxGridSize, "rope of so many heads");
  check(args.tokens * std::min<int64_t>(kRopePairs, args.width / 2) < (int64_t{1} << 31), "rope of so many tokens");
  with_type(args.dtype, [&]<typename T>() {
    constexpr int pack = 16 / sizeof(T);
    const auto in_packs = [](const void* data, const ops::RopeStrides& strides) {
      return packs(data, strides.batch, sizeof(T), pack) && packs(data, strides.token, sizeof(T), pack) &&
             packs(data, strides.head, sizeof(T), pack);
    };
    const bool wide = args.width / 2 % pack == 0 && in_packs(args.x, args.from) && in_packs(args.out, args.to);
    for (int64_t batch = 0; batch < args.batch; batch += kMaxGridSize)
      for (int64_t pair = 0; pair < args.width / 2; pair += kRopePairs)
        wide ? rotate<T, pack>(args, batch, pair, stream) : rotate<T, 1>(args, batch, pair, stream);
  });
}

}  // namespace plimsoll::cuda
