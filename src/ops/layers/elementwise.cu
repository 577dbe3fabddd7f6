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

// The position of this thread: blocks of (columns, rows) threads in a grid of (rows, columns), so that nothing is
// divided.
struct Cell {
  int64_t row, column;
};
template <int pack>
__device__ inline Cell cell() {
  return {int64_t{blockIdx.x} * blockDim.y + threadIdx.y, (int64_t{blockIdx.y} * blockDim.x + threadIdx.x) * pack};
}

template <typename Gate, typename T, int pack>
__global__ void __launch_bounds__(256)
    gated(const T* gate_up, int64_t stride, T* y, int64_t y_stride, int64_t rows, int64_t width) {
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
                   int64_t out_stride, int64_t rows, int64_t width) {
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

constexpr int64_t kMaxGridSize = 65535;  // maximum of a grid in y and z

struct Grid {
  dim3 grid, block;
};
Grid grid_of(int64_t rows, int64_t width, int pack) {
  constexpr int64_t kThreads = 256;
  const int64_t across = row_threads(width / pack, kThreads), down = kThreads / across;
  const int64_t column_blocks = ops::div_up(width, across * pack);
  check(column_blocks <= kMaxGridSize, "a gate of such wide rows");
  return {dim3(static_cast<unsigned>(ops::div_up(rows, down)), static_cast<unsigned>(column_blocks)),
          dim3(static_cast<unsigned>(across), static_cast<unsigned>(down))};
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
        const Grid grid = grid_of(rows, width, pack);
        launch(&gated_backward<G, T, pack>, grid.grid, grid.block, 0, stream, static_cast<const T*>(grad.data),
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

struct RopeParts {
  ops::RopePart parts[ops::kMaxRopeParts];
};

__host__ __device__ inline unsigned groups_of(const ops::RopePart& part) {
  return static_cast<unsigned>((part.heads + kRopeHeads - 1) / kRopeHeads);
}

// Rotates the pairs [first_pair, first_pair + pairs) of each head, or copies them. Grid: tokens x pairs, batch, groups
// of heads of one part after the other.
template <typename T, int pack>
__global__ void __launch_bounds__(kRopeThreads)
    rope(const __grid_constant__ RopeParts parts, T* out, int64_t first_batch, int64_t tokens, int64_t heads,
         int64_t width, const __grid_constant__ RopeFrequencies frequencies, int64_t first_pair, int64_t pairs,
         int64_t position, double direction) {
  using A = Accumulate<T>;
  const int64_t half = width / 2;
  const auto index = static_cast<unsigned>(grid_index()), packs = static_cast<unsigned>(pairs / pack);
  const int64_t token = index / packs, pair = int64_t{index % packs} * pack;
  if (token >= tokens) return;
  int p = 0;
  unsigned group = blockIdx.z;
  for (; group >= groups_of(parts.parts[p]); ++p) group -= groups_of(parts.parts[p]);
  const ops::RopePart& part = parts.parts[p];
  A sine[pack], cosine[pack];
  if (part.rotated) {
#pragma unroll
    for (int j = 0; j < pack; ++j)
      sine_cosine(frequencies.radians[pair + j] * (direction * static_cast<double>(position + token)), sine[j],
                  cosine[j]);
  }
  const int64_t batch = first_batch + blockIdx.y, begin = int64_t{group} * kRopeHeads;
  const int64_t end = begin + kRopeHeads < part.heads ? begin + kRopeHeads : part.heads;
  const T* from = static_cast<const T*>(part.x) + batch * part.batch_stride + token * part.token_stride +
                  begin * part.head_stride + first_pair + pair;
  T* to = out + ((batch * tokens + token) * heads + part.first_head + begin) * width + first_pair + pair;
  for (int64_t head = begin; head < end; ++head, from += part.head_stride, to += width) {
    const auto first = load_pack<pack>(from), second = load_pack<pack>(from + half);
    if (!part.rotated) {
      store_pack(to, first);
      store_pack(to + half, second);
      continue;
    }
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
void rotate(const ops::PackedRope& args, int64_t first_batch, int64_t first_pair, cudaStream_t stream) {
  RopeFrequencies frequencies{};
  const int64_t pairs = std::min<int64_t>(kRopePairs, args.width / 2 - first_pair);
  std::copy_n(args.frequencies + first_pair, pairs, frequencies.radians);
  RopeParts parts{};
  unsigned groups = 0;
  for (int i = 0; i < args.count; ++i) {
    parts.parts[i] = args.parts[i];
    groups += groups_of(args.parts[i]);
  }
  const dim3 grid(static_cast<unsigned>(ops::div_up(args.tokens * (pairs / pack), kRopeThreads)),
                  static_cast<unsigned>(std::min(kMaxGridSize, args.batch - first_batch)), groups);
  launch(&rope<T, pack>, grid, dim3(kRopeThreads), 0, stream, parts, static_cast<T*>(args.out), first_batch,
         args.tokens, args.heads, args.width, frequencies, first_pair, pairs, args.position, args.inverse ? -1.0 : 1.0);
}

}  // namespace

void launch_packed_rope(const ops::PackedRope& args, cudaStream_t stream) {
  if (args.batch * args.tokens * args.heads * args.width == 0) return;
  check(args.heads < kMaxGridSize, "rope of so many heads");
  check(args.tokens * std::min<int64_t>(kRopePairs, args.width / 2) < (int64_t{1} << 31), "rope of so many tokens");
  with_type(args.dtype, [&]<typename T>() {
    constexpr int pack = 16 / sizeof(T);
    bool wide = args.width / 2 % pack == 0 && packs(args.out, 0, sizeof(T), pack);
    for (int i = 0; i < args.count; ++i)
      for (const int64_t stride : {args.parts[i].batch_stride, args.parts[i].token_stride, args.parts[i].head_stride})
        wide = wide && packs(args.parts[i].x, stride, sizeof(T), pack);
    for (int64_t batch = 0; batch < args.batch; batch += kMaxGridSize)
      for (int64_t pair = 0; pair < args.width / 2; pair += kRopePairs)
        wide ? rotate<T, pack>(args, batch, pair, stream) : rotate<T, 1>(args, batch, pair, stream);
  });
}

void launch_rope(const ops::Rope& args, cudaStream_t stream) {
  launch_packed_rope(
      {.parts = {ops::RopePart{args.x, args.batch_stride, args.token_stride, args.head_stride, 0, args.heads, true}},
       .count = 1,
       .out = args.out,
       .dtype = args.dtype,
       .batch = args.batch,
       .tokens = args.tokens,
       .heads = args.heads,
       .width = args.width,
       .frequencies = args.frequencies,
       .position = args.position,
       .inverse = args.inverse},
      stream);
}

}  // namespace plimsoll::cuda
