#include "ops/dtype_switch.h"
#include "ops/optimizer/adafactor_kernels.cuh"
#include "ops/optimizer/optimizer_kernels.cuh"
#include "ops/optimizer/optimizer_launch.h"
#include "ops/rows.h"

namespace plimsoll::cuda {
namespace {

constexpr int kThreads = kUpdateThreads;
constexpr int64_t kMaxBlocks = 2048;  ///< enough for any current GPU; each block computes the step's numbers once

/// Returns the number of blocks, each of which processes 2048 elements at a time.
unsigned blocks_for(int64_t count) {
  return static_cast<unsigned>(div_up_blocks(blocks_of_values(count), kThreads / kLanesOfBlock, kMaxBlocks));
}

template <template <typename> typename Rule>
void launch_rule(const UpdateTarget& target, const StepPointers& scalars, const RuleNumbers& numbers,
                 cudaStream_t stream) {
  const auto kernel =
      target.parameter.format == ops::Format::float64 ? update_elements<double, Rule> : update_elements<float, Rule>;
  launch(kernel, blocks_for(target.count), kUpdateThreads, 0, stream, target, scalars, numbers);
}

template <template <typename> typename Rule>
void launch_rule(const UpdateTable& table, unsigned blocks, const StepPointers& scalars, const RuleNumbers& numbers,
                 cudaStream_t stream) {
  const auto kernel = table.targets[0].parameter.format == ops::Format::float64 ? update_targets<double, Rule>
                                                                                : update_targets<float, Rule>;
  launch(kernel, blocks, kUpdateThreads, 0, stream, table, scalars, numbers);
}

void launch_table(ElementRule rule, const UpdateTable& table, unsigned blocks, const StepPointers& scalars,
                  const RuleNumbers& numbers, cudaStream_t stream) {
  switch (rule) {
    case ElementRule::adamw:
      return launch_rule<AdamW>(table, blocks, scalars, numbers, stream);
    case ElementRule::lion:
      return launch_rule<Lion>(table, blocks, scalars, numbers, stream);
    case ElementRule::sgd:
      return launch_rule<Sgd>(table, blocks, scalars, numbers, stream);
    case ElementRule::momentum_sgd:
      return launch_rule<MomentumSgd>(table, blocks, scalars, numbers, stream);
  }
}

}  // namespace

void launch_update(ElementRule rule, const UpdateTarget& target, const StepPointers& scalars,
                   const RuleNumbers& numbers, cudaStream_t stream) {
  if (target.count == 0) return;
  switch (rule) {
    case ElementRule::adamw:
      return launch_rule<AdamW>(target, scalars, numbers, stream);
    case ElementRule::lion:
      return launch_rule<Lion>(target, scalars, numbers, stream);
    case ElementRule::sgd:
      return launch_rule<Sgd>(target, scalars, numbers, stream);
    case ElementRule::momentum_sgd:
      return launch_rule<MomentumSgd>(target, scalars, numbers, stream);
  }
}

void launch_updates(ElementRule rule, const UpdateTarget* targets, int64_t count, const StepPointers& scalars,
                    const RuleNumbers& numbers, cudaStream_t stream) {
  UpdateTable table;
  unsigned blocks = 0;
  const auto run = [&] {
    if (table.count > 0) launch_table(rule, table, blocks, scalars, numbers, stream);
    table.count = 0;
    blocks = 0;
  };
  for (int64_t i = 0; i < count; ++i) {
    if (targets[i].count == 0) continue;
    table.targets[table.count] = targets[i];
    table.first_block[table.count++] = blocks;
    blocks += blocks_for(targets[i].count);
    if (table.count == kMaxTargets) run();
  }
  run();
}

void launch_nesterov_momentum(const ops::Values& gradient, const ops::Values& momentum, const ops::Values& result,
                              int64_t count, const StepPointers& scalars, float decay, bool stochastic_state,
                              int64_t seed, cudaStream_t stream) {
  if (count == 0) return;
  launch(nesterov_momentum, blocks_for(count), kThreads, 0, stream, gradient, momentum, result, count, scalars, decay,
         stochastic_state, seed);
}

void launch_accumulate(const ops::Values& sum, const ops::Values& part, int64_t count, bool overwrite,
                       const ops::Draw& draw, cudaStream_t stream) {
  if (count == 0) return;
  launch(accumulate, blocks_for(count), kThreads, 0, stream, sum, part, count, overwrite, draw);
}

void launch_unpack(const ops::Values& values, int64_t count, float* to, cudaStream_t stream) {
  if (count == 0) return;
  launch(unpack_numbers, blocks_for(count), kThreads, 0, stream, values, count, to);
}

void launch_block_norm(const ops::Values& values, int64_t count, double* parts, float* norm, cudaStream_t stream) {
  const unsigned blocks = std::min(blocks_for(count), static_cast<unsigned>(kNormParts));
  launch(sum_squares_of_blocks, blocks, kThreads, 0, stream, values, count, parts);
  launch(root_of_sum, 1, kThreads, 0, stream, parts, static_cast<int64_t>(blocks), norm);
}

void launch_block_sums(const void* data, DType dtype, int64_t count, double* partials, cudaStream_t stream) {
  const int64_t pieces = ops::div_up(count, ops::kCudaNormBlock);
  if (pieces == 0) return;
  with_type(dtype, [&]<typename T>() {
    constexpr int pack = 16 / sizeof(T);
    const auto kernel = packs(data, 0, sizeof(T), pack) ? &sum_squares<T, pack> : &sum_squares<T, 1>;
    launch(kernel, dim3(static_cast<unsigned>(ops::div_up(pieces, int64_t{kPiecesAtOnce}))), dim3(kSumThreads), 0,
           stream, static_cast<const T*>(data), count, ops::kCudaNormBlock, pieces, partials);
  });
}

void launch_gradient_sums(SummedGradients& of, DType dtype, double* partials, cudaStream_t stream) {
  int64_t pieces = 0;
  for (int g = 0; g < of.gradients; ++g) pieces += ops::div_up(of.count[g], ops::kCudaNormBlock);
  if (pieces == 0) return;
  with_type(dtype, [&]<typename T>() {
    constexpr int pack = 16 / sizeof(T);
    for (int g = 0; g < of.gradients; ++g) of.packed[g] = packs(of.data[g], 0, sizeof(T), pack);
    launch(&sum_squares_of_gradients<T, pack>, dim3(static_cast<unsigned>(ops::div_up(pieces, int64_t{kPiecesAtOnce}))),
           dim3(kSumThreads), 0, stream, of, ops::kCudaNormBlock, pieces, partials);
  });
}

void launch_gradient_norm(const void* data, DType dtype, int64_t count, double* partials, float* norm, float* skipped,
                          cudaStream_t stream) {
  launch_block_sums(data, dtype, count, partials, stream);
  launch(&finish_norm, dim3(1), dim3(kFinishThreads), 0, stream, static_cast<const double*>(partials),
         ops::div_up(count, ops::kCudaNormBlock), norm, skipped);
}

void launch_norms_of_blocks(const double* sums, int64_t ranks, int64_t of_rank, const BlocksOfGradients& of,
                            int gradients, float* norms, int64_t stride, float* skipped, cudaStream_t stream) {
  if (gradients == 0) return;
  for (int g = 0; g < gradients; ++g) index32(ranks * of.blocks[g]);
  launch(&finish_norms, dim3(static_cast<unsigned>(gradients)), dim3(kFinishThreads), 0, stream, sums, ranks, of_rank,
         of, norms, stride, skipped);
}

void launch_adafactor(const UpdateTarget& target, const ops::MatrixShape& shape, float* row_means, float* column_means,
                      const StepPointers& scalars, const RuleNumbers& numbers, void* scratch, cudaStream_t stream) {
  constexpr int kThreads = 256, kWarps = kThreads / kWarp;
  constexpr int64_t kMaxBlocks = AdafactorTiles::kSquareParts;
  if (target.count == 0) return;
  const AdafactorTiles tiles(shape);
  AdafactorScratch cut;
  cut.squares = static_cast<double*>(scratch);
  cut.row_sums = reinterpret_cast<float*>(cut.squares + AdafactorTiles::kSquareParts);
  cut.column_sums = cut.row_sums + shape.rows * tiles.across;
  cut.row_factors = cut.column_sums + tiles.down * shape.columns;
  cut.step = cut.row_factors + shape.rows;
  const Adafactor in{target.parameter,
                     target.gradient,
                     index32(shape.rows),
                     index32(shape.columns),
                     index32(tiles.rows_of_tile),
                     index32(tiles.down),
                     index32(tiles.across),
                     index32(tiles.down * tiles.across),
                     row_means,
                     column_means,
                     scalars,
                     numbers.values[0],
                     numbers.values[1],
                     target.seed,
                     target.stochastic_parameter,
                     cut};
  const auto of_tiles = static_cast<unsigned>(div_up_blocks(tiles.down * tiles.across, kWarps, kMaxBlocks));
  launch(adafactor_sums, of_tiles, kThreads, 0, stream, in);
  launch(adafactor_rows, static_cast<unsigned>(div_up_blocks(shape.rows, kWarps, kMaxBlocks)), kThreads, 0, stream, in);
  launch(adafactor_columns, static_cast<unsigned>(div_up_blocks(shape.columns, kThreads, kMaxBlocks)), kThreads, 0,
         stream, in);
  launch(adafactor_length, of_tiles, kThreads, 0, stream, in);
  launch(adafactor_step, 1, kThreads, 0, stream, in, static_cast<int64_t>(of_tiles));
  launch(adafactor_update, blocks_for(target.count), kThreads, 0, stream, in);
}

}  // namespace plimsoll::cuda
