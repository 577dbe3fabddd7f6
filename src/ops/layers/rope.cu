// Implements rotary position embedding on CUDA. A thread processes a few pairs of one token in several heads. The sine
// and cosine of an angle are computed once for all these heads.
#include "ops/layers/rope.h"

#include <algorithm>

#include "ops/device_support.cuh"
#include "ops/dtype_switch.h"
#include "ops/rows.h"

namespace plimsoll::cuda {

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

// Rotates the pairs [first_pair, first_pair + pairs) of each head. Grid: tokens x pairs, batch, groups of heads.
template <typename T, int pack>
__global__ void __launch_bounds__(kRopeThreads)
    rope(const T* x, T* out, int64_t tokens, int64_t heads, int64_t width, int64_t batch_stride, int64_t token_stride,
         int64_t head_stride, const __grid_constant__ RopeFrequencies frequencies, int64_t first_pair, int64_t pairs,
         int64_t position, double direction) {
  using A = Accumulate<T>;
  const int64_t packs = pairs / pack, half = width / 2;
  const int64_t token = grid_index() / packs, pair = grid_index() % packs * pack;
  if (token >= tokens) return;
  A sine[pack], cosine[pack];
#pragma unroll
  for (int j = 0; j < pack; ++j)
    sine_cosine(frequencies.radians[pair + j] * (direction * static_cast<double>(position + token)), sine[j],
                cosine[j]);
  const int64_t begin = int64_t{blockIdx.z} * kRopeHeads;
  const int64_t end = begin + kRopeHeads < heads ? begin + kRopeHeads : heads;
  const T* from = x + blockIdx.y * batch_stride + token * token_stride + begin * head_stride + first_pair + pair;
  T* to = out + ((blockIdx.y * tokens + token) * heads + begin) * width + first_pair + pair;
  for (int64_t head = begin; head < end; ++head, from += head_stride, to += width) {
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

constexpr int64_t kMaxGridSize = 65535;  // maximum of a grid in y and z

template <typename T, int pack>
void rotate(const ops::Rope& args, int64_t first_batch, int64_t first_pair, cudaStream_t stream) {
  RopeFrequencies frequencies{};
  const int64_t pairs = std::min<int64_t>(kRopePairs, args.width / 2 - first_pair);
  std::copy_n(args.frequencies + first_pair, pairs, frequencies.radians);
  const dim3 grid(static_cast<unsigned>(ops::div_up(args.tokens * (pairs / pack), kRopeThreads)),
                  static_cast<unsigned>(std::min(kMaxGridSize, args.batch - first_batch)),
                  static_cast<unsigned>(ops::div_up(args.heads, kRopeHeads)));
  launch(&rope<T, pack>, grid, dim3(kRopeThreads), 0, stream,
         static_cast<const T*>(args.x) + first_batch * args.batch_stride,
         static_cast<T*>(args.out) + first_batch * args.tokens * args.heads * args.width, args.tokens, args.heads,
         args.width, args.batch_stride, args.token_stride, args.head_stride, frequencies, first_pair, pairs,
         args.position, args.inverse ? -1.0 : 1.0);
}

}  // namespace

void launch_rope(const ops::Rope& args, cudaStream_t stream) {
  if (args.batch * args.tokens * args.heads * args.width == 0) return;
  check(ops::div_up(args.heads, kRopeHeads) <= kMaxGridSize, "rope of so many heads");
  with_type(args.dtype, [&]<typename T>() {
    constexpr int pack = 16 / sizeof(T);
    const auto whole = [&](int64_t stride) { return packs(args.x, stride, sizeof(T), pack); };
    const bool wide = args.width / 2 % pack == 0 && whole(args.batch_stride) && whole(args.token_stride) &&
                      whole(args.head_stride) && packs(args.out, 0, sizeof(T), pack);
    for (int64_t batch = 0; batch < args.batch; batch += kMaxGridSize)
      for (int64_t pair = 0; pair < args.width / 2; pair += kRopePairs)
        wide ? rotate<T, pack>(args, batch, pair, stream) : rotate<T, 1>(args, batch, pair, stream);
  });
}

}  // namespace plimsoll::cuda
