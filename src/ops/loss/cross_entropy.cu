#include "ops/dtype_switch.h"
#include "ops/loss/cross_entropy_kernels.cuh"
#include "ops/loss/cross_entropy_launch.h"
#include "ops/rows.h"

namespace plimsoll::cuda {
namespace {

template <typename T>
void add_split(const ops::SplitAdd& args, int64_t rows, cudaStream_t stream) {
  constexpr int pack = 16 / sizeof(T);
  constexpr int64_t kThreads = 256;
  const auto* part = static_cast<const T*>(args.part.data);
  auto *high = static_cast<T*>(args.high.data), *low = static_cast<T*>(args.low.data);
  const int64_t count = rows * args.width;
  const auto dense = [&](const void* data, int64_t stride) {
    return data == nullptr || ((stride == args.width || rows == 1) && packs(data, 0, sizeof(T), pack));
  };
  if (count % pack == 0 && dense(part, args.part.stride) && dense(high, args.high.stride) &&
      dense(low, args.low.stride)) {
    launch(&split_add_dense<T, pack>, dim3(static_cast<unsigned>(ops::div_up(count / pack, kThreads))), dim3(kThreads),
           0, stream, part, high, low, args.read_low, args.write_low, count / pack);
    return;
  }
  const CellGrid cells = cell_grid(rows, args.width, 1);
  launch(&split_add<T>, cells.grid, cells.block, 0, stream, part, args.part.stride, high, args.high.stride, low,
         args.low.stride, args.read_low, args.write_low, rows, args.width);
}

}  // namespace

void launch_cross_entropy(const ops::CrossEntropy& args, int64_t rows, cudaStream_t stream) {
  if (rows == 0) return;
  with_type(args.logits.dtype, [&]<typename T>() {
    constexpr int pack = 16 / sizeof(T);
    const bool wide = args.width % pack == 0 && packs(args.logits.data, args.logits.stride, sizeof(T), pack);
    const auto kernel = wide ? &cross_entropy<T, pack> : &cross_entropy<T, 1>;
    launch(kernel, dim3(static_cast<unsigned>(rows)), dim3(row_threads(args.width / (wide ? pack : 1), 1024)), 0,
           stream, static_cast<T*>(args.logits.data), args.logits.stride, args.targets, args.target_stride,
           args.ignore_index, static_cast<Accumulate<T>*>(args.losses), args.width, args.gradient,
           static_cast<Accumulate<T>>(args.softcap));
  });
}

void launch_mean_loss(const void* losses, DType dtype, const int64_t* targets, int64_t target_stride,
                      int64_t ignore_index, int64_t tokens, void* loss, void* count, cudaStream_t stream) {
  const auto run = [&]<typename A>() {
    launch(&mean_loss<A>, dim3(1), dim3(row_threads(tokens, 1024)), 0, stream, static_cast<const A*>(losses), targets,
           target_stride, ignore_index, tokens, static_cast<A*>(loss), static_cast<A*>(count));
  };
  dtype == DType::float64 ? run.template operator()<double>() : run.template operator()<float>();
}

void launch_split_add(const ops::SplitAdd& args, int64_t rows, cudaStream_t stream) {
  if (rows * args.width == 0) return;
  with_type(args.high.dtype, [&]<typename T>() { add_split<T>(args, rows, stream); });
}

}  // namespace plimsoll::cuda
