#include "ops/cuda/dtype_switch.h"
#include "ops/cuda/rms_norm_kernels.cuh"
#include "ops/cuda/rms_norm_launch.h"
#include "ops/cuda_plan.h"

namespace plimsoll::cuda {
namespace {

constexpr int64_t kWarpWidth = 1024;  // rows up to here are a warp's
constexpr int kWarpsInBlock = 8;

// A warp a row and several rows a block, or a block a row.
struct Shape {
  bool by_warp;
  dim3 block;
  int64_t rows_at_once;
};
Shape shape_of(int64_t width, int pack) {
  if (width <= kWarpWidth) return {true, dim3(kWarp, kWarpsInBlock), kWarpsInBlock};
  return {false, dim3(row_threads((width + pack - 1) / pack, 1024)), 1};
}

// As many elements at a time as 16 bytes hold of the wider type, where everything lies so that it can be.
template <typename X, typename Y>
constexpr int kWide = 16 / (sizeof(X) > sizeof(Y) ? sizeof(X) : sizeof(Y));

bool in_packs(const ops::ConstRows& rows, int64_t width, int pack) {
  return width % pack == 0 && packs(rows.data, rows.stride, element_bytes(rows.dtype), pack);
}
bool in_packs(const ops::Rows& rows, int64_t width, int pack) {
  return in_packs(ops::ConstRows{rows.data, rows.dtype, rows.stride}, width, pack);
}
bool weight_in_packs(const void* weight, DType dtype, int pack) {
  return packs(weight, 0, element_bytes(dtype), pack);
}

template <typename X, typename Y, int pack>
void forward(const ops::RmsNorm& args, DType weight_dtype, int64_t rows, cudaStream_t stream) {
  const Shape shape = shape_of(args.width, pack);
  const auto kernel = shape.by_warp ? &rms_norm<X, Y, pack, true> : &rms_norm<X, Y, pack, false>;
  launch(kernel, dim3(static_cast<unsigned>(ops::div_up(rows, shape.rows_at_once))), shape.block, 0, stream,
         static_cast<const X*>(args.x.data), args.x.stride, static_cast<Y*>(args.y.data), args.y.stride, args.weight,
         weight_dtype, static_cast<Accumulate<X>*>(args.rstd), rows, args.width, static_cast<Accumulate<X>>(args.eps));
}

template <typename X, typename Y, int pack>
void backward(const ops::RmsNormBackward& args, DType weight_dtype, int64_t rows, void* partials, cudaStream_t stream) {
  const Shape shape = shape_of(args.width, pack);
  const int64_t block_rows = ops::cuda_norm_block_rows(rows);
  const size_t shared = static_cast<size_t>(args.width) * sizeof(Accumulate<X>) * shape.block.y;
  const bool in_shared = shared <= size_t{96} << 10;
  const auto kernel = shape.by_warp ? &rms_norm_backward<X, Y, pack, true> : &rms_norm_backward<X, Y, pack, false>;
  launch(kernel, dim3(static_cast<unsigned>(ops::div_up(rows, block_rows))), shape.block, in_shared ? shared : 0,
         stream, static_cast<const Y*>(args.grad_y.data), args.grad_y.stride, static_cast<const X*>(args.x.data),
         args.x.stride, static_cast<X*>(args.dx.data), args.dx.stride, args.weight, weight_dtype,
         static_cast<const Accumulate<X>*>(args.rstd), rows, args.width, block_rows,
         static_cast<Accumulate<X>*>(partials), in_shared);
}

}  // namespace

void launch_rms_norm(const ops::RmsNorm& args, DType weight_dtype, int64_t rows, cudaStream_t stream) {
  if (rows == 0) return;
  with_types(args.x.dtype, args.y.dtype, [&]<typename X, typename Y>() {
    constexpr int pack = kWide<X, Y>;
    const bool wide = in_packs(args.x, args.width, pack) && in_packs(args.y, args.width, pack) &&
                      weight_in_packs(args.weight, weight_dtype, pack);
    wide ? forward<X, Y, pack>(args, weight_dtype, rows, stream) : forward<X, Y, 1>(args, weight_dtype, rows, stream);
  });
}

void launch_rms_norm_backward(const ops::RmsNormBackward& args, DType weight_dtype, int64_t rows, void* partials,
                              void* dweight, cudaStream_t stream) {
  if (rows > 0)
    with_types(args.x.dtype, args.grad_y.dtype, [&]<typename X, typename Y>() {
      constexpr int pack = kWide<X, Y>;
      const bool wide = in_packs(args.x, args.width, pack) && in_packs(args.grad_y, args.width, pack) &&
                        in_packs(args.dx, args.width, pack) && weight_in_packs(args.weight, weight_dtype, pack);
      wide ? backward<X, Y, pack>(args, weight_dtype, rows, partials, stream)
           : backward<X, Y, 1>(args, weight_dtype, rows, partials, stream);
    });
  with_type(weight_dtype, [&]<typename T>() {
    launch(&sum_columns<T>, dim3(static_cast<unsigned>(ops::div_up(args.width, kSumColumns))),
           dim3(kSumColumns, kSumRows), 0, stream, static_cast<const Accumulate<T>*>(partials),
           ops::div_up(rows, ops::cuda_norm_block_rows(rows)), args.width, static_cast<T*>(dweight));
  });
}

}  // namespace plimsoll::cuda
