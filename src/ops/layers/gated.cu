#include "ops/dtype_switch.h"
#include "ops/layers/gated_kernels.cuh"
#include "ops/layers/gated_launch.h"
#include "ops/rows.h"

namespace plimsoll::cuda {
namespace {

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
