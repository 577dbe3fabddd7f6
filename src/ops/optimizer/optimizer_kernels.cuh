// Implements the element-wise optimizers, gradient accumulators and the unpacking of values, one pass each. Arithmetic
// and rounding are the CPU's (element_arithmetic.h, formats.h), rounded operation by operation: the bits are the
// same.
#pragma once

#include "ops/device_support.cuh"
#include "ops/optimizer/element_arithmetic.h"
#include "ops/optimizer/optimizer_launch.h"
#include "ops/packed_numbers.cuh"

namespace plimsoll::cuda {

template <typename Number>
struct AdamW {
  using Step = ops::AdamWStep<Number>;
  __device__ static Step step(const ops::StepNumbers& of, const double* numbers) {
    return ops::adamw_step<Number>(of, numbers);
  }
  __device__ static void apply(Number& p, Number g, Number& first, Number& second, const Step& step) {
    ops::adamw_element(p, g, first, second, step);
  }
};
template <typename Number>
struct Lion {
  using Step = ops::LionStep<Number>;
  __device__ static Step step(const ops::StepNumbers& of, const double* numbers) {
    return ops::lion_step<Number>(of, numbers);
  }
  __device__ static void apply(Number& p, Number g, Number& first, Number&, const Step& step) {
    ops::lion_element(p, g, first, step);
  }
};
template <typename Number>
struct MomentumSgd {
  using Step = ops::SgdStep<Number>;
  __device__ static Step step(const ops::StepNumbers& of, const double* numbers) {
    return ops::sgd_step<Number>(of, numbers[0], numbers[1]);
  }
  __device__ static void apply(Number& p, Number g, Number& first, Number&, const Step& step) {
    ops::momentum_sgd_element(p, g, first, step);
  }
};
template <typename Number>
struct Sgd {
  using Step = ops::SgdStep<Number>;
  __device__ static Step step(const ops::StepNumbers& of, const double* numbers) {
    return ops::sgd_step<Number>(of, 0, numbers[0]);
  }
  __device__ static void apply(Number& p, Number g, Number&, Number&, const Step& step) {
    ops::sgd_element(p, g, step);
  }
};

__device__ inline ops::StepNumbers read_scalars(const StepPointers& scalars) {
  return {*scalars.step, scalars.learning_rate != nullptr ? *scalars.learning_rate : 0.0, *scalars.grad_scale};
}

/// Updates the part of a target that belongs to this thread's block, the `index`th of `blocks`. The parameter's
/// `Number`s are float, or double for float64 parameters.
template <typename Number, template <typename> typename Rule>
__device__ inline void update_by_block(const UpdateTarget& target, const StepPointers& scalars,
                                       const RuleNumbers& numbers, unsigned index, unsigned blocks) {
  using Exact = ops::Unfused<Number>;
  using Formula = Rule<Exact>;
  // One thread computes the step for the block: a whole power takes as long as updating many elements.
  __shared__ typename Formula::Step step_of_block;
  __shared__ uint32_t key_of_block[2];
  if (*scalars.skipped != 0) return;
  if (threadIdx.x == 0) {
    const ops::StepNumbers of = read_scalars(scalars);
    step_of_block = Formula::step(of, numbers.values);
    const ops::Draw draw = ops::draw_of_step(target.seed, of.step);
    key_of_block[0] = draw.key[0];
    key_of_block[1] = draw.key[1];
  }
  __syncthreads();
  const typename Formula::Step step = step_of_block;
  const ops::Draw draw{{key_of_block[0], key_of_block[1]}, 0, int64_t{target.first_chunk} * ops::kChunk};
  for_each_place(target.count, index, blocks, [&](const Place& at) {
    Number p[kEach], g[kEach], state[2][kEach] = {};
    load_weights(target.parameter, at, p);
    load_numbers(target.gradient, at, g);
    // Unrolled: with a count that is known at run time only, the values would be in memory instead of registers.
#pragma unroll
    for (int s = 0; s < 2; ++s)
      if (s < target.states) load_numbers(target.state[s], at, state[s]);
#pragma unroll
    for (int v = 0; v < kEach; ++v) {
      Exact parameter(p[v]), first(state[0][v]), second(state[1][v]);
      Formula::apply(parameter, Exact(g[v]), first, second, step);
      const bool there = at.has(v);  // else it must stay 0: the block's scale depends on it
      p[v] = there ? parameter.value : Number(0);
      state[0][v] = there ? first.value : Number(0);
      state[1][v] = there ? second.value : Number(0);
    }
    const Drawn8 drawn = target.random ? draw_eight(draw, at) : Drawn8{};
#pragma unroll
    for (int s = 0; s < 2; ++s)
      if (s < target.states) store_numbers(target.state[s], at, state[s], target.stochastic_state, drawn);
    store_weights(target.parameter, at, p, target.stochastic_parameter, drawn);
  });
}

// At most 128 registers a thread, so that two blocks share a multiprocessor and one loads while the other computes.
constexpr int kUpdateThreads = 256, kUpdateBlocks = 2;

template <typename Number, template <typename> typename Rule>
__global__ void __launch_bounds__(kUpdateThreads, kUpdateBlocks)
    update_elements(UpdateTarget target, StepPointers scalars, RuleNumbers numbers) {
  update_by_block<Number, Rule>(target, scalars, numbers, blockIdx.x, gridDim.x);
}

/// Updates one of the targets in each block. The table stays in the launch's constant memory: all threads of a block
/// read the same entry.
template <typename Number, template <typename> typename Rule>
__global__ void __launch_bounds__(kUpdateThreads, kUpdateBlocks)
    update_targets(const __grid_constant__ UpdateTable table, StepPointers scalars, RuleNumbers numbers) {
  // The loop finds the last target whose first block is at most this block.
  int at = 0, beyond = table.count;
  while (at + 1 < beyond) {
    const int middle = (at + beyond) / 2;
    if (table.first_block[middle] <= blockIdx.x)
      at = middle;
    else
      beyond = middle;
  }
  const unsigned first = table.first_block[at], end = at + 1 < table.count ? table.first_block[at + 1] : gridDim.x;
  update_by_block<Number, Rule>(table.targets[at], scalars, numbers, blockIdx.x - first, end - first);
}

__global__ void nesterov_momentum(ops::Values gradient, ops::Values momentum, ops::Values result, int64_t count,
                                  StepPointers scalars, float decay, bool stochastic_state, int64_t seed) {
  using Exact = ops::Unfused<float>;
  const bool skipped = *scalars.skipped != 0;
  const Exact grad_scale(*scalars.grad_scale), kept(decay);
  // Stream 1 is the first mean's, as in the other optimizers; 0 is the parameter's.
  const ops::Draw draw = ops::draw_of_step(seed, *scalars.step).of(1);
  for_each_place(count, [&](const Place& at) {
    float g[kEach], mean[kEach], out[kEach] = {};
    if (!skipped) {
      load_floats(gradient, at, g);
      load_floats(momentum, at, mean);
#pragma unroll
      for (int v = 0; v < kEach; ++v) {
        Exact now(mean[v]);
        const Exact ahead = ops::nesterov_element(Exact(g[v]), now, grad_scale, kept);
        mean[v] = at.has(v) ? now.value : 0.0f;
        out[v] = ahead.value;
      }
      store_floats(momentum, at, mean, stochastic_state, draw_eight(draw, at));
    }
    store_floats(result, at, out, false, Drawn8{});
  });
}

__global__ void accumulate(ops::Values sum, ops::Values part, int64_t count, bool overwrite, ops::Draw draw) {
  const bool random = sum.format != ops::Format::float32;
  for_each_place(count, [&](const Place& at) {
    float total[kEach], added[kEach];
    load_floats(part, at, added);
    if (overwrite) {
#pragma unroll
      for (int v = 0; v < kEach; ++v) total[v] = added[v];
    } else {
      load_floats(sum, at, total);
#pragma unroll
      for (int v = 0; v < kEach; ++v) total[v] += added[v];
    }
    store_floats(sum, at, total, true, random ? draw_eight(draw, at) : Drawn8{});
  });
}

__global__ void unpack_numbers(ops::Values values, int64_t count, float* to) {
  for_each_place(count, [&](const Place& at) {
    float numbers[kEach];
    load_floats(values, at, numbers);
    store_plain<float>(to, at, numbers);
  });
}

/// Sums squares without their block's scale, because the squared scale exceeds the range of float32.
__global__ void sum_squares_of_blocks(ops::Values values, int64_t count, double* parts) {
  double total = 0;
  for_each_place(count, [&](const Place& at) {
    if (!at.any()) return;
    const double scale = ops::power_of_two(values.scales[at.block]);
    float sum = 0;
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const uint32_t word = load_codes8(static_cast<const uint8_t*>(values.data), at, half);
#pragma unroll
      for (int k = 0; k < 4; ++k) {
        const float x = ops::numbers_of<ops::E4M3, false, 8, float>(word >> (8 * k), 1.0f);
        sum += x * x;  // missing codes are 0
      }
    }
    total += static_cast<double>(sum) * scale * scale;
  });
  total = reduce_block<Sum>(total);
  if (threadIdx.x == 0) parts[blockIdx.x] = total;
}
__global__ void root_of_sum(const double* parts, int32_t count, float* norm) {
  double sum = 0;
  for (int32_t i = threadIdx.x; i < count; i += blockDim.x) sum += parts[i];
  sum = reduce_block<Sum>(sum);
  if (threadIdx.x == 0) *norm = static_cast<float>(sqrt(sum));
}

// Squares are summed by pieces of a gradient, a warp each, so that no warp waits for another. A piece takes few float64
// operations: devices other than those of data centers have one float64 unit for 64 of float32.
constexpr int kSumThreads = 256, kPiecesAtOnce = kSumThreads / kWarp;

/// Returns the index of this warp's piece.
__device__ inline int32_t piece_of_warp() {
  return static_cast<int32_t>(blockIdx.x * kPiecesAtOnce + threadIdx.x / kWarp);
}

/// Returns the sum of squares over the elements [begin, begin + piece) of `count`, in all lanes. Squares of one pack
/// are added in float32 if they stay in its range, packs in float64. Elements behind the last one count as zeros. All
/// lanes of a warp call.
template <typename T, int pack>
__device__ double squares_of_piece(const T* data, int64_t count, int64_t begin, int32_t piece) {
  const T* const from = data + begin;
  const int32_t end = count - begin < piece ? static_cast<int32_t>(count - begin) : piece;
  const auto first = static_cast<int32_t>(threadIdx.x % kWarp) * pack;
  double total = 0;
#pragma unroll 4
  for (int32_t i = first; i < end; i += kWarp * pack) {
    Accumulate<T> wide[pack];
    if (i + pack <= end) {
      const auto values = load_pack<pack>(from + i);
#pragma unroll
      for (int j = 0; j < pack; ++j) wide[j] = widen(values[j]);
    } else {
#pragma unroll
      for (int j = 0; j < pack; ++j) wide[j] = i + j < end ? widen(from[i + j]) : Accumulate<T>(0);
    }
    Accumulate<T> squares = 0;
#pragma unroll
    for (int j = 0; j < pack; ++j) squares += wide[j] * wide[j];
    auto sum = static_cast<double>(squares);
    // Squares in float32 overflow from elements of 2e19 on, and lose digits below 1e-15. Most values in the gradient of
    // an embedding are zeros; they add nothing.
    if (!(squares < Accumulate<T>(1e37)) || squares < Accumulate<T>(1e-25)) {
      sum = 0;
#pragma unroll
      for (int j = 0; j < pack; ++j)
        if (wide[j] != 0) sum += static_cast<double>(wide[j]) * static_cast<double>(wide[j]);
    }
    total += sum;
  }
  return reduce_warp<Sum>(total);
}

/// Computes partials[b] = the sum of squares over the elements [b * piece, (b + 1) * piece), for b below `pieces`.
template <typename T, int pack>
__global__ void __launch_bounds__(kSumThreads)
    sum_squares(const T* data, int64_t count, int32_t piece, int32_t pieces, double* partials) {
  const int32_t at = piece_of_warp();
  if (at >= pieces) return;  // a whole warp
  const double total = squares_of_piece<T, pack>(data, count, int64_t{at} * piece, piece);
  if (threadIdx.x % kWarp == 0) partials[at] = total;
}

/// Computes the sum of squares of each of the `pieces` of several gradients. Those of gradient g begin at of.first[g].
template <typename T, int pack>
__global__ void __launch_bounds__(kSumThreads)
    sum_squares_of_gradients(const __grid_constant__ SummedGradients of, int32_t piece, int32_t pieces,
                             double* partials) {
  const int32_t at = piece_of_warp();
  if (at >= pieces) return;
  // The loop finds the last gradient whose first piece is at most this one.
  int g = 0, beyond = of.gradients;
  while (g + 1 < beyond) {
    const int middle = (g + beyond) / 2;
    if (of.first[middle] <= static_cast<uint32_t>(at))
      g = middle;
    else
      beyond = middle;
  }
  const int64_t begin = (int64_t{at} - of.first[g]) * piece;
  const T* const data = static_cast<const T*>(of.data[g]);
  const double total = of.packed[g] ? squares_of_piece<T, pack>(data, of.count[g], begin, piece)
                                    : squares_of_piece<T, 1>(data, of.count[g], begin, piece);
  if (threadIdx.x % kWarp == 0) partials[at] = total;
}

// One block adds the sums of all pieces of a gradient. A large embedding has a million pieces.
constexpr int kFinishThreads = 1024;

/// Computes the norm from the sums of pieces `sum_of(i)`, i below `count`; thread 0 writes it. All threads of a block
/// call.
template <typename SumOf>
__device__ void take_norm(const SumOf& sum_of, int32_t count, float* norm, float* skipped) {
  constexpr int kAtOnce = 4;  // loads of a thread that do not wait for each other
  double parts[kAtOnce] = {};
  for (auto i = static_cast<int32_t>(threadIdx.x); i < count; i += kFinishThreads * kAtOnce) {
#pragma unroll
    for (int k = 0; k < kAtOnce; ++k)
      if (i + k * kFinishThreads < count) parts[k] += sum_of(i + k * kFinishThreads);
  }
  const double total = reduce_block<Sum>((parts[0] + parts[1]) + (parts[2] + parts[3]));
  if (threadIdx.x != 0) return;
  const float result = static_cast<float>(sqrt(total));
  *norm = result;
  if (!(result <= 3.402823466e+38f)) *skipped = 1;  // infinite, or NaN
}

static __global__ void __launch_bounds__(kFinishThreads)
    finish_norm(const double* partials, int32_t count, float* norm, float* skipped) {
  take_norm([partials](int32_t i) { return partials[i]; }, count, norm, skipped);
}

/// Computes the norm of gradient g in block g. Its sums are those of rank 0, then of rank 1 and so on, in
/// finish_norm()'s order for a whole gradient. The sums of the padding at the end are zeros.
static __global__ void __launch_bounds__(kFinishThreads)
    finish_norms(const double* sums, int32_t ranks, int32_t of_rank, BlocksOfGradients of, float* norms, int64_t stride,
                 float* skipped) {
  const auto blocks = static_cast<int32_t>(of.blocks[blockIdx.x]);
  const double* const first = sums + of.first[blockIdx.x];
  take_norm([=](int32_t i) { return first[int64_t{i / blocks} * of_rank + i % blocks]; }, ranks * blocks,
            norms + of.index[blockIdx.x] * stride, skipped);
}

}  // namespace plimsoll::cuda
