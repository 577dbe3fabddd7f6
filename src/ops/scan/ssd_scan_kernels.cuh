// Implements the parts of the state-space scan that are no matmuls: it packs and unpacks tiles
// (ops/scan/ssd_kernels_cpu.h has the formulas). Behind the end of a short chunk operands are 0 and the sums stay
// constant, so these positions have no effect.
#pragma once

#include <algorithm>

#include "ops/device_support.cuh"
#include "ops/scan/scan_launch.h"

namespace plimsoll::cuda {

/// The sizes of a panel in 32 bits, as launches pass them: the kernels divide nothing in 64 bits. All tiles of one kind
/// together have at most kMaxIndex elements.
struct SsdSizes {
  int32_t time, heads, width, groups, state, chunk;
  int32_t chunks, longest, heads_of_group, state_elements;  ///< results of ops::SsdShape's functions
  int32_t first, tasks;                                     ///< chunks of the SsdPanel
  bool reverse;

  explicit SsdSizes(const SsdPanel& panel)
      : time(index32(panel.shape.time)),
        heads(index32(panel.shape.heads)),
        width(index32(panel.shape.width)),
        groups(index32(panel.shape.groups)),
        state(index32(panel.shape.state)),
        chunk(index32(panel.shape.chunk)),
        chunks(index32(panel.shape.chunks())),
        longest(index32(panel.shape.longest())),
        heads_of_group(index32(panel.shape.heads_of_group())),
        state_elements(index32(panel.shape.state_elements())),
        first(index32(panel.first)),
        tasks(index32(panel.tasks)),
        reverse(panel.shape.reverse) {
    const ops::SsdShape& s = panel.shape;
    for (const int64_t count : {panel.tasks * s.heads * (s.longest() + s.state) * std::max(s.longest(), s.width),
                                panel.tasks * s.heads * kWarp, s.batch * s.heads * s.chunks(), s.batch * s.time})
      index32(count);
  }
};

/// A tensor with strides in 32 bits between the rows of a sequence.
struct SsdRows {
  const void* data;
  int64_t batch_stride;
  int32_t time_stride, head_stride;

  explicit SsdRows(const ops::SsdTensor& tensor)
      : data(tensor.data),
        batch_stride(tensor.batch_stride),
        time_stride(index32(tensor.time_stride)),
        head_stride(index32(tensor.head_stride)) {}
};

/// A chunk of a panel: most kernels have one for each blockIdx.z, and a head or group for each blockIdx.y.
struct SsdChunk {
  int32_t task, batch, index, length;
  __device__ SsdChunk(const SsdSizes& s, int32_t of_panel) : task(s.first + of_panel) {
    batch = task / s.chunks;
    index = task % s.chunks;
    const int32_t left = s.time - index * s.chunk;
    length = left < s.chunk ? left : s.chunk;
  }
  /// Returns the time of position `i` of the chunk.
  __device__ int32_t time(const SsdSizes& s, int32_t i) const {
    const int32_t position = index * s.chunk + i;
    return s.reverse ? s.time - 1 - position : position;
  }
  /// Returns the index of position `i` among those of all sequences.
  __device__ int64_t token(const SsdSizes& s, int32_t i) const { return batch * s.time + time(s, i); }
};

template <typename T>
__device__ inline const T* row_of(const SsdRows& rows, const SsdSizes& s, const SsdChunk& chunk, int i, int32_t head) {
  return static_cast<const T*>(rows.data) + chunk.batch * rows.batch_stride +
         int64_t{chunk.time(s, i)} * rows.time_stride + int64_t{head} * rows.head_stride;
}
/// Returns the state of a head that belongs to the chunk.
template <typename S>
__device__ inline S* state_of(S* states, const SsdSizes& s, const SsdChunk& chunk, int32_t head) {
  return states + int64_t{(chunk.batch * s.heads + head) * s.chunks + chunk.index} * s.state_elements;
}
/// Returns the tile of this block, of `each` tiles of a chunk: all heads or all groups.
__device__ inline int32_t tile_of_block(int32_t each) {
  return static_cast<int32_t>(blockIdx.z) * each + static_cast<int32_t>(blockIdx.y);
}
/// Returns this thread's index among the threads with the same blockIdx.y and z.
__device__ inline int inner_index() {
  return static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
}

template <typename S>
__device__ inline S leaving_weight(const S* steps, const S* sums, int length, int i) {
  return exponential(sums[length - 1] - sums[i]) * steps[i];
}

/// Computes the decays with a warp for each head of each chunk. Prefix sums double their stride over 32 positions at a
/// time.
template <typename S>
__global__ void ssd_decays(SsdSizes s, SsdRows dt, const S* a, S* steps, S* sums) {
  const int length = s.longest, lane = threadIdx.x % kWarp;
  const int32_t task = grid_index() / kWarp;
  if (task >= s.tasks * s.heads) return;
  const SsdChunk chunk(s, task / s.heads);
  const int32_t head = task % s.heads;
  S before = 0;
  for (int first = 0; first < length; first += kWarp) {
    const int i = first + lane;
    const S step = i < chunk.length ? *row_of<S>(dt, s, chunk, i, head) : S(0);
    S sum = step * a[head];
#pragma unroll
    for (int apart = 1; apart < kWarp; apart *= 2) {
      const S lower = __shfl_up_sync(kAllLanes, sum, apart);
      if (lane >= apart) sum += lower;
    }
    sum += before;
    before = __shfl_sync(kAllLanes, sum, kWarp - 1);
    if (i >= length) continue;
    steps[task * length + i] = step;
    sums[task * length + i] = sum;
  }
}

template <typename T>
__global__ void ssd_pack(SsdSizes s, SsdRows from, int width, SsdWeight weight, bool grouped,
                         const Accumulate<T>* steps, const Accumulate<T>* sums, T* to) {
  using S = Accumulate<T>;
  const int length = s.longest, at = inner_index();
  if (at >= length * width) return;
  const SsdChunk chunk(s, static_cast<int32_t>(blockIdx.z));
  const auto heads = static_cast<int32_t>(gridDim.y), head = static_cast<int32_t>(blockIdx.y);
  const int32_t tile = tile_of_block(heads);
  const int i = at / width, j = at % width;
  S value = i < chunk.length ? static_cast<S>(widen(row_of<T>(from, s, chunk, i, head)[j])) : S(0);
  if (weight != SsdWeight::none) {
    const int32_t row = tile * length;
    value *=
        weight == SsdWeight::arriving ? exponential(sums[row + i]) : leaving_weight(steps + row, sums + row, length, i);
  }
  const int32_t shared = s.heads_of_group, group = static_cast<int32_t>(blockIdx.z) * s.groups + head / shared;
  const int32_t out = grouped ? ((group * length + i) * shared + head % shared) * width : (tile * length + i) * width;
  to[out + j] = narrow<T>(value);
}

/// Passes states with a thread for each element of a sequence's states: blockIdx.y counts the panel's sequences.
/// `back`: from the last chunk to the first.
template <typename S, bool back>
__global__ void ssd_pass(SsdSizes s, const S* local, const S* sums, S* states) {
  const int32_t at = grid_index(), size = s.state_elements, chunks = s.chunks, length = s.longest;
  if (at >= s.heads * size) return;
  const int32_t head = at / size, n = at % size / s.width, p = at % s.width, shared = s.heads_of_group;
  const int32_t batch = s.first / chunks + static_cast<int32_t>(blockIdx.y), start = batch * chunks;
  const int32_t begin = s.first > start ? s.first : start;
  const int32_t end = s.first + s.tasks < start + chunks ? s.first + s.tasks : start + chunks;
  S* const to = states + int64_t{(batch * s.heads + head) * chunks} * size + at % size;
  const auto added = [&](int32_t task) {
    const int32_t of_panel = task - s.first;
    return local[(((of_panel * s.groups + head / shared) * s.state + n) * shared + head % shared) * s.width + p];
  };
  const auto kept = [&](int32_t task) {
    return exponential(sums[((task - s.first) * s.heads + head) * length + length - 1]);
  };
  if (back) {
    if (end == start + chunks) to[int64_t{chunks - 1} * size] = 0;
    if (chunks == 1) return;
    for (int32_t task = end - 1; task >= begin && task > start; --task)
      to[int64_t{task - start - 1} * size] = kept(task) * to[int64_t{task - start} * size] + added(task);
  } else {
    if (begin == start) to[0] = 0;
    if (chunks == 1) return;
    for (int32_t task = begin; task < end && task + 1 < start + chunks; ++task)
      to[int64_t{task - start + 1} * size] = kept(task) * to[int64_t{task - start} * size] + added(task);
  }
}

template <typename T>
__global__ void ssd_left(SsdSizes s, const Accumulate<T>* scores, const T* c, const Accumulate<T>* steps,
                         const Accumulate<T>* sums, T* left) {
  using S = Accumulate<T>;
  const int length = s.longest, n = s.state, width = length + n;
  const int at = inner_index();
  if (at >= length * width) return;
  const int i = at / width, j = at % width;
  const int32_t head = tile_of_block(s.heads);
  const int32_t group =
      static_cast<int32_t>(blockIdx.z) * s.groups + static_cast<int32_t>(blockIdx.y) / s.heads_of_group;
  const S* sum = sums + head * length;
  S value = 0;
  if (j >= length)
    value = exponential(sum[i]) * widen(c[(group * length + i) * n + j - length]);
  else if (j <= i)
    value = scores[(group * length + i) * length + j] * exponential(sum[i] - sum[j]) * steps[head * length + j];
  left[head * length * width + at] = narrow<T>(value);
}

template <typename T>
__global__ void ssd_right(SsdSizes s, SsdRows rows, const Accumulate<T>* states, T* right) {
  const int length = s.longest, width = s.width, at = inner_index();
  const int depth = length + s.state;
  if (at >= depth * width) return;
  const SsdChunk chunk(s, static_cast<int32_t>(blockIdx.z));
  const int i = at / width, j = at % width;
  T value = narrow<T>(0);
  if (i >= length)
    value = narrow<T>(state_of(states, s, chunk, blockIdx.y)[(i - length) * width + j]);
  else if (i < chunk.length)
    value = row_of<T>(rows, s, chunk, i, blockIdx.y)[j];
  right[tile_of_block(s.heads) * depth * width + at] = value;
}

template <typename T>
__global__ void ssd_narrow_states(SsdSizes s, const Accumulate<T>* states, T* to) {
  const int at = inner_index();
  if (at >= s.state_elements) return;
  const SsdChunk chunk(s, static_cast<int32_t>(blockIdx.z));
  to[tile_of_block(s.heads) * s.state_elements + at] = narrow<T>(state_of(states, s, chunk, blockIdx.y)[at]);
}

template <typename T>
__global__ void ssd_add_through(SsdSizes s, const Accumulate<T>* product, SsdRows rows, const Accumulate<T>* d,
                                T* out) {
  const int length = s.longest, width = s.width, at = inner_index();
  const SsdChunk chunk(s, static_cast<int32_t>(blockIdx.z));
  const int i = at / width, j = at % width;
  if (i >= chunk.length) return;
  const auto head = static_cast<int32_t>(blockIdx.y);
  const Accumulate<T> value =
      product[tile_of_block(s.heads) * length * width + at] + d[head] * widen(row_of<T>(rows, s, chunk, i, head)[j]);
  out[chunk.token(s, i) * (s.heads * width) + head * width + j] = narrow<T>(value);
}

/// Computes one pair of positions of a group in each thread, for all heads of the group. blockIdx.y is the group.
template <typename T>
__global__ void ssd_weigh_back(SsdSizes s, const Accumulate<T>* __restrict__ scores, const T* __restrict__ b,
                               const Accumulate<T>* __restrict__ steps, const Accumulate<T>* __restrict__ sums,
                               Accumulate<T>* __restrict__ products, T* __restrict__ score_gradients,
                               T* __restrict__ left) {
  using S = Accumulate<T>;
  const int length = s.longest, n = s.state, at = inner_index();
  const int depth = length + n;
  if (at >= depth * length) return;
  const int i = at / length, j = at % length;
  const int32_t group = tile_of_block(s.groups), shared = s.heads_of_group, first = group * shared;
  if (i >= length) {  // B, transposed
    const S value = widen(b[(group * length + j) * n + i - length]);
#pragma unroll 4
    for (int32_t head = first; head < first + shared; ++head)
      left[head * depth * length + at] =
          narrow<T>(value * leaving_weight(steps + head * length, sums + head * length, length, j));
    return;
  }
  const bool seen = j <= i;
  const S score = seen ? scores[group * length * length + at] : S(0);
  S gradient = 0;
#pragma unroll 4  // the heads' loads do not wait for each other
  for (int32_t head = first; head < first + shared; ++head) {
    S weight = 0, undone = 0;
    if (seen) {
      const S decay = exponential(sums[head * length + i] - sums[head * length + j]), step = steps[head * length + j];
      const S product = products[head * length * length + at];
      gradient += product * decay * step;
      undone = product * score * decay;
      weight = score * decay * step;
    }
    products[head * length * length + at] = undone;
    left[head * depth * length + at] = narrow<T>(weight);
  }
  score_gradients[group * length * length + at] = narrow<T>(gradient);
}

/// Sums products with a block for each head of each chunk.
template <typename S>
__global__ void ssd_sum_products(SsdSizes s, const S* __restrict__ products, const S* __restrict__ steps,
                                 S* __restrict__ step_gradients, S* __restrict__ sum_gradients) {
  const int length = s.longest;
  const auto head = static_cast<int32_t>(blockIdx.x);
  products += head * length * length;
  steps += head * length;
  for (int j = threadIdx.x; j < length; j += blockDim.x) {
    S sum = 0;
#pragma unroll 8  // few blocks: each thread has several loads in flight
    for (int i = j; i < length; ++i) sum += products[i * length + j];
    step_gradients[head * length + j] = sum;
    sum_gradients[head * length + j] = -steps[j] * sum;
  }
  __syncthreads();
  const int lane = threadIdx.x % kWarp;
  for (int i = threadIdx.x / kWarp; i < length; i += blockDim.x / kWarp) {
    S sum = 0;
#pragma unroll 8
    for (int j = lane; j <= i; j += kWarp) sum += products[i * length + j] * steps[j];
    sum = reduce_warp<Sum>(sum);
    if (lane == 0) sum_gradients[head * length + i] += sum;
  }
}

constexpr int kStateWarps = 8, kStateColumns = 8;  // warps of a block, and columns that a lane sums at a time

/// Processes one position (x) of each group (y) of each chunk (z) in a block: its rows of `part`, every eighth head in
/// a warp. The order of sums depends on nothing but the number of heads. `leaving`: `part` is x G^T, else dy H^T.
template <typename T, bool leaving>
__global__ void __launch_bounds__(kStateWarps* kWarp)
    ssd_states_back(SsdSizes s, const Accumulate<T>* part, const T* b_or_c, const Accumulate<T>* steps,
                    const Accumulate<T>* sums, Accumulate<T>* group_sums, Accumulate<T>* step_gradients,
                    Accumulate<T>* sum_gradients, Accumulate<T>* given) {
  using S = Accumulate<T>;
  constexpr int kAtOnce = kStateColumns * kWarp;
  __shared__ S of_warp[kStateWarps][kAtOnce];
  const int length = s.longest, n = s.state, lane = threadIdx.x % kWarp, warp = threadIdx.x / kWarp;
  const auto i = static_cast<int32_t>(blockIdx.x);
  const int32_t group = tile_of_block(s.groups), shared = s.heads_of_group, first = group * shared;
  const T* own = b_or_c + (group * length + i) * n;
  S* to = group_sums + (group * length + i) * n;
  for (int begin = 0; begin < n; begin += kAtOnce) {
    S value_of[kStateColumns], total[kStateColumns] = {};
#pragma unroll
    for (int v = 0; v < kStateColumns; ++v) {
      const int k = begin + v * kWarp + lane;
      value_of[v] = k < n ? widen(own[k]) : S(0);
    }
    for (int32_t head = first + warp; head < first + shared; head += kStateWarps) {
      const S* sum = sums + head * length;
      const S decay = exponential(leaving ? sum[length - 1] - sum[i] : sum[i]);
      const S weight = leaving ? decay * steps[head * length + i] : decay;
      const S* from = part + (head * length + i) * n;
      S dot = 0;
#pragma unroll
      for (int v = 0; v < kStateColumns; ++v) {
        const int k = begin + v * kWarp + lane;
        const S value = k < n ? from[k] : S(0);
        dot += value_of[v] * value;
        total[v] += weight * value;
      }
      dot = reduce_warp<Sum>(dot);
      if (lane != 0) continue;
      const int32_t at = head * length + i;
      if (leaving) {
        step_gradients[at] += decay * dot;
        sum_gradients[at] -= weight * dot;
        given[at] = (begin == 0 ? S(0) : given[at]) + weight * dot;
      } else {
        sum_gradients[at] += weight * dot;
      }
    }
    __syncthreads();  // the columns before may still be read
#pragma unroll
    for (int v = 0; v < kStateColumns; ++v) of_warp[warp][v * kWarp + lane] = total[v];
    __syncthreads();
    for (int k = threadIdx.x; k < kAtOnce && begin + k < n; k += blockDim.x) {
      S sum = 0;
      for (int w = 0; w < kStateWarps; ++w) sum += of_warp[w][k];
      to[begin + k] = sum;
    }
  }
}

template <typename T>
__global__ void ssd_store_sum(SsdSizes s, const Accumulate<T>* sums, const Accumulate<T>* product, T* out) {
  const int length = s.longest, n = s.state, at = inner_index();
  const SsdChunk chunk(s, static_cast<int32_t>(blockIdx.z));
  const int i = at / n, j = at % n;
  if (i >= chunk.length) return;
  const int32_t from = tile_of_block(s.groups) * length * n + at;
  out[chunk.token(s, i) * (s.groups * n) + static_cast<int32_t>(blockIdx.y) * n + j] =
      narrow<T>(sums[from] + product[from]);
}

/// Computes the last gradients with a block for each head of each chunk. The first warp turns the sums' gradients into
/// those of each position's dt A, from the last position to the first, 32 at a time.
template <typename T>
__global__ void ssd_finish(SsdSizes s, SsdFinish args, SsdRows x, SsdRows dy) {
  using S = Accumulate<T>;
  const int length = s.longest, width = s.width;
  const auto tile = static_cast<int32_t>(blockIdx.x), head = tile % s.heads, row = tile * length;
  const SsdChunk chunk(s, tile / s.heads);
  const S *steps = static_cast<const S*>(args.steps) + row, *sums = static_cast<const S*>(args.sums) + row;
  const S* state = state_of(static_cast<const S*>(args.states), s, chunk, head);
  const S* leaving = state_of(static_cast<const S*>(args.state_gradients), s, chunk, head);
  S through = 0, last = 0, kept = 0;
  for (int at = threadIdx.x; at < chunk.length * width; at += blockDim.x) {
    const int i = at / width, j = at % width;
    through += static_cast<S>(widen(row_of<T>(dy, s, chunk, i, head)[j])) *
               static_cast<S>(widen(row_of<T>(x, s, chunk, i, head)[j]));
  }
  for (int i = threadIdx.x; i < length; i += blockDim.x) last += static_cast<const S*>(args.given)[row + i];
  // The state before the first chunk and the gradient after the last one are 0.
  if (chunk.index > 0 && chunk.index + 1 < s.chunks)
    for (int32_t i = threadIdx.x; i < s.state_elements; i += blockDim.x) kept += leaving[i] * state[i];
  through = reduce_block<Sum>(through);
  last = reduce_block<Sum>(last);
  kept = reduce_block<Sum>(kept);
  last += exponential(sums[length - 1]) * kept;
  if (threadIdx.x >= kWarp) return;
  const S a = static_cast<const S*>(args.a)[head];
  const int lane = threadIdx.x;
  S behind = last, a_gradient = 0;  // sum over later positions; the last position's initial value counts for all
  for (int first = length - 1; first >= 0; first -= kWarp) {
    const int i = first - lane;
    S running = i >= 0 ? static_cast<const S*>(args.sum_gradients)[row + i] : S(0);
#pragma unroll
    for (int apart = 1; apart < kWarp; apart *= 2) {
      const S later = __shfl_up_sync(kAllLanes, running, apart);
      if (lane >= apart) running += later;
    }
    running += behind;
    behind = __shfl_sync(kAllLanes, running, kWarp - 1);
    if (i < 0) continue;
    a_gradient += steps[i] * running;
    if (i < chunk.length)
      static_cast<S*>(args.dt)[chunk.token(s, i) * s.heads + head] =
          static_cast<const S*>(args.step_gradients)[row + i] + a * running;
  }
  a_gradient = reduce_warp<Sum>(a_gradient);
  if (lane != 0) return;
  static_cast<S*>(args.a_shares)[chunk.task * s.heads + head] = a_gradient;
  static_cast<S*>(args.d_shares)[chunk.task * s.heads + head] = through;
}

/// Sums the shares of one head a block.
template <typename S>
__global__ void ssd_sum_shares(const S* shares, int32_t count, S* to) {
  const auto heads = static_cast<int32_t>(gridDim.x);
  S sum = 0;
  for (int32_t i = threadIdx.x; i < count; i += blockDim.x) sum += shares[int64_t{i} * heads + blockIdx.x];
  sum = reduce_block<Sum>(sum);
  if (threadIdx.x == 0) to[blockIdx.x] = sum;
}

}  // namespace plimsoll::cuda
