#include "ops/optimizer/adafactor_kernels.cuh"

namespace plimsoll::cuda {

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
                     shape.rows,
                     shape.columns,
                     tiles.rows_of_tile,
                     tiles.down,
                     tiles.across,
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
  launch(adafactor_update, static_cast<unsigned>(div_up_blocks(target.count, 2048, 2048)), kThreads, 0, stream, in);
}

}  // namespace plimsoll::cuda
