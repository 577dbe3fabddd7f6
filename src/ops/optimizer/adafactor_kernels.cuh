// Implements Adafactor in five passes: sums of squares by row and column, the means' rows, the means' columns, the
// length of the update, and the update itself. Sums are partial sums in scratch, added in order: the same in every run.
//
// With m the mean of the rows' means, an element of row r and column c moves by g / sqrt(row_r column_c / m). The terms
// of only the row and of only the column are float32 factors; m is applied at the end.
#pragma once

#include "ops/optimizer/optimizer_launch.h"
#include "ops/packed_numbers.cuh"

namespace plimsoll::cuda {

/// The scratch, in the layout of adafactor_scratch_bytes().
struct AdafactorScratch {
  double* squares = nullptr;     ///< [kSquareParts]
  float* row_sums = nullptr;     ///< [rows, tiles across]
  float* column_sums = nullptr;  ///< [tiles down, columns]; the first row later holds the columns' factors
  float* row_factors = nullptr;  ///< [rows]
  float* step = nullptr;         ///< the factor of every element, and the factor of the parameter
};

struct Adafactor {
  ops::Weights parameter;
  ops::Values gradient;
  int32_t rows = 0, columns = 0;
  int32_t rows_of_tile = 0, down = 0, across = 0, tiles = 0;
  float* row_means = nullptr;
  float* column_means = nullptr;
  StepPointers scalars;
  double threshold = 0, weight_decay = 0;
  int64_t seed = 0;
  bool stochastic = false;
  AdafactorScratch scratch;

  __device__ int64_t count() const { return int64_t{rows} * columns; }
};

constexpr float kAdafactorEpsilon = 1e-30f;  // added to squares
constexpr double kAdafactorExponent = -0.8;  // section 7.2: the mean decays by 1 - step^-0.8

/// Returns element `i` of a gradient.
__device__ inline float number_at(const ops::Values& values, int64_t i, int64_t count) {
  switch (values.format) {
    case ops::Format::float32:
      return static_cast<const float*>(values.data)[i];
    case ops::Format::bfloat16:
      return widen(static_cast<const bfloat16*>(values.data)[i]);
    case ops::Format::float16:
      return widen(static_cast<const float16*>(values.data)[i]);
    case ops::Format::float64:
      return static_cast<float>(static_cast<const double*>(values.data)[i]);
    default: {  // 8 bits: accumulators never have fewer
      const uint32_t code = static_cast<const uint8_t*>(values.data)[ops::place_of_bits8(i, count)];
      return ops::numbers_of<ops::E4M3, false, 8, float>(code, ops::power_of_two(values.scales[i / ops::kBlock8]));
    }
  }
}

/// Calls `number(r, c, j)` for each row of a tile and for the lane's columns of it, j = 0 .. 3. Calls `done(r)` after
/// each row. The whole warp calls together.
template <typename OfNumber, typename OfRow>
__device__ inline void for_each_in_tile(const Adafactor& in, int32_t tile, const OfNumber& number, const OfRow& done) {
  const int32_t first_row = tile / in.across * in.rows_of_tile, first_column = tile % in.across * 128;
  const int32_t after = in.rows - first_row < in.rows_of_tile ? in.rows : first_row + in.rows_of_tile;
  for (int32_t r = first_row; r < after; ++r) {
#pragma unroll
    for (int j = 0; j < 4; ++j) {
      const int32_t c = first_column + j * kWarp + static_cast<int>(threadIdx.x % kWarp);
      if (c < in.columns) number(r, c, j);
    }
    done(r);
  }
}

__global__ void adafactor_sums(Adafactor in) {
  if (*in.scalars.skipped != 0) return;
  const float grad_scale = *in.scalars.grad_scale;
  const int32_t warps = grid_threads() / kWarp, lane = threadIdx.x % kWarp;
  for (int32_t tile = grid_index() / kWarp; tile < in.tiles; tile += warps) {
    const int32_t down = tile / in.across, across = tile % in.across;
    float by_column[4] = {}, of_row = 0;
    for_each_in_tile(
        in, tile,
        [&](int32_t r, int32_t c, int j) {
          const float g = number_at(in.gradient, int64_t{r} * in.columns + c, in.count()) / grad_scale;
          const float square = g * g + kAdafactorEpsilon;
          by_column[j] += square;
          of_row += square;
        },
        [&](int32_t r) {
          const float sum = reduce_warp<Sum>(of_row);
          if (lane == 0) in.scratch.row_sums[int64_t{r} * in.across + across] = sum;
          of_row = 0;
        });
#pragma unroll
    for (int j = 0; j < 4; ++j) {
      const int32_t c = across * 128 + j * kWarp + lane;
      if (c < in.columns) in.scratch.column_sums[int64_t{down} * in.columns + c] = by_column[j];
    }
  }
}

__device__ inline float moved_mean(float mean, double sum, int32_t count, double kept) {
  return static_cast<float>((1 - kept) * mean + kept * (sum / static_cast<double>(count)));
}
__device__ inline float factor_of(float mean) {
  return static_cast<float>(1 / sqrt(static_cast<double>(mean)));
}
/// Returns the weight of the new squares; one thread of the block computes it.
__device__ inline double kept_of_new(const StepPointers& scalars) {
  __shared__ double kept;
  if (threadIdx.x == 0) kept = pow(static_cast<double>(*scalars.step) + 1, kAdafactorExponent);
  __syncthreads();
  return kept;
}

__global__ void adafactor_rows(Adafactor in) {
  if (*in.scalars.skipped != 0) return;
  const double kept = kept_of_new(in.scalars);
  const int32_t warps = grid_threads() / kWarp, lane = threadIdx.x % kWarp;
  for (int32_t r = grid_index() / kWarp; r < in.rows; r += warps) {
    const float* const sums = in.scratch.row_sums + int64_t{r} * in.across;
    double sum = 0;
    for (int32_t i = lane; i < in.across; i += kWarp) sum += sums[i];
    sum = reduce_warp<Sum>(sum);
    if (lane != 0) continue;
    const float mean = moved_mean(in.row_means[r], sum, in.columns, kept);
    in.row_means[r] = mean;
    in.scratch.row_factors[r] = factor_of(mean);
  }
}

__global__ void adafactor_columns(Adafactor in) {
  if (*in.scalars.skipped != 0) return;
  const double kept = kept_of_new(in.scalars);
  for (int32_t c = grid_index(); c < in.columns; c += grid_threads()) {
    double sum = 0;
    for (int32_t i = 0; i < in.down; ++i) sum += in.scratch.column_sums[int64_t{i} * in.columns + c];
    const float mean = moved_mean(in.column_means[c], sum, in.rows, kept);
    in.column_means[c] = mean;
    in.scratch.column_sums[c] = factor_of(mean);
  }
}

/// Computes the sum of (g factors)^2, without m and the gradient's scale.
__global__ void adafactor_length(Adafactor in) {
  if (*in.scalars.skipped != 0) return;
  const int32_t warps = grid_threads() / kWarp;
  double total = 0;
  for (int32_t tile = grid_index() / kWarp; tile < in.tiles; tile += warps) {
    float of_row = 0;
    for_each_in_tile(
        in, tile,
        [&](int32_t r, int32_t c, int) {
          const float u = number_at(in.gradient, int64_t{r} * in.columns + c, in.count()) * in.scratch.column_sums[c] *
                          in.scratch.row_factors[r];
          of_row += u * u;
        },
        [&](int32_t) {
          total += of_row;
          of_row = 0;
        });
  }
  total = reduce_block<Sum>(total);
  if (threadIdx.x == 0) in.scratch.squares[blockIdx.x] = total;
}

/// Computes the step's factors in one block.
__global__ void adafactor_step(Adafactor in, int32_t parts) {
  if (*in.scalars.skipped != 0) return;
  double total = 0, rows = 0;
  for (int32_t i = threadIdx.x; i < parts; i += blockDim.x) total += in.scratch.squares[i];
  for (int32_t r = threadIdx.x; r < in.rows; r += blockDim.x) rows += in.row_means[r];
  total = reduce_block<Sum>(total);
  rows = reduce_block<Sum>(rows);
  if (threadIdx.x != 0) return;
  const double scale = sqrt(rows / static_cast<double>(in.rows)) / static_cast<double>(*in.scalars.grad_scale);
  const double length = sqrt(total / static_cast<double>(in.count())) * scale, rate = *in.scalars.learning_rate;
  const double shortened = length / in.threshold;
  in.scratch.step[0] = static_cast<float>(rate / (shortened > 1 ? shortened : 1) * scale);
  in.scratch.step[1] = static_cast<float>(1 - rate * in.weight_decay);
}

__global__ void adafactor_update(Adafactor in) {
  if (*in.scalars.skipped != 0) return;
  const float step_size = in.scratch.step[0], kept = in.scratch.step[1];
  const ops::Draw draw = ops::draw_of_step(in.seed, *in.scalars.step);
  for_each_place(in.count(), [&](const Place& at) {
    float p[kEach], g[kEach];
    load_weights(in.parameter, at, p);
    load_floats(in.gradient, at, g);
    // Divided in 32 bits if the element allows it: nvcc adds the test.
    auto row = static_cast<int32_t>(at.element(0) / in.columns);
    auto column = static_cast<int32_t>(at.element(0) - int64_t{row} * in.columns);
#pragma unroll
    for (int v = 0; v < kEach; ++v) {
      if (at.has(v))
        p[v] = kept * p[v] - step_size * in.scratch.row_factors[row] * (g[v] * in.scratch.column_sums[column]);
      for (column += kLanesOfBlock; column >= in.columns; column -= in.columns) ++row;
    }
    store_weights(in.parameter, at, p, in.stochastic, in.stochastic ? draw_eight(draw, at) : Drawn8{});
  });
}

}  // namespace plimsoll::cuda
