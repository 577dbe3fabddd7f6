#include "ops/dtype_switch.h"
#include "ops/layers/layers_launch.h"
#include "ops/layers/rms_norm_kernels.cuh"
#include "ops/rows.h"

namespace plimsoll::cuda {
namespace {

constexpr int64_t kWarpWidth = 1024;  // each row up to this width is one warp's
constexpr int kWarpsInBlock = 8;

// A launch shape: a warp a row and several rows a block, or a block a row.
struct Shape {
  bool by_warp;
  dim3 block;
  int64_t rows_at_once;
};
Shape shape_of(int64_t width, int pack, bool by_warp) {
  if (by_warp) return {true, dim3(kWarp, kWarpsInBlock), kWarpsInBlock};
  return {false, dim3(row_threads((width + pack - 1) / pack, 1024)), 1};
}

// Elements of a wide access: as many of the wider type as 16 bytes hold, if the operands' alignment allows it.
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

template <typename X, typename Y, int pack, typename Source>
void forward(const Source& x, const ops::RmsNorm& args, DType weight_dtype, int64_t rows, cudaStream_t stream) {
  const Shape shape = shape_of(args.width, pack, args.width <= kWarpWidth);
  const auto kernel = shape.by_warp ? &rms_norm<X, Y, pack, true, Source> : &rms_norm<X, Y, pack, false, Source>;
  launch(kernel, dim3(static_cast<unsigned>(ops::div_up(rows, shape.rows_at_once))), shape.block, 0, stream, x,
         static_cast<Y*>(args.y.data), args.y.stride, args.weight, weight_dtype, static_cast<Accumulate<X>*>(args.rstd),
         rows, args.width, static_cast<Accumulate<X>>(args.eps));
}

// Bytes of shared memory of a block on every device from compute capability 7.5 on, less the space of sums over its
// threads.
constexpr size_t kMaxShared = size_t{63} << 10;

template <typename X, typename Y, int pack, typename Target>
void backward(const Target& dx, const ops::RmsNormBackward& args, DType weight_dtype, int64_t rows, void* partials,
              cudaStream_t stream) {
  const size_t sums = static_cast<size_t>(args.width) * sizeof(Accumulate<X>);  // bytes of a row's sums
  // The sums of warps are only in shared memory. Rows that are wide in bytes therefore belong to a block, as rows with
  // many elements do.
  const Shape shape = shape_of(args.width, pack, args.width <= kWarpWidth && sums * kWarpsInBlock <= kMaxShared);
  const int64_t block_rows = ops::cuda_norm_block_rows(rows);
  const size_t shared = sums * shape.block.y;
  const bool in_shared = shared <= kMaxShared;
  const auto kernel =
      shape.by_warp ? &rms_norm_backward<X, Y, pack, true, Target> : &rms_norm_backward<X, Y, pack, false, Target>;
  launch(kernel, dim3(static_cast<unsigned>(ops::div_up(rows, block_rows))), shape.block, in_shared ? shared : 0,
         stream, static_cast<const Y*>(args.grad_y.data), args.grad_y.stride, static_cast<const X*>(args.x.data),
         args.x.stride, dx, args.weight, weight_dtype, static_cast<const Accumulate<X>*>(args.rstd), rows, args.width,
         block_rows, static_cast<Accumulate<X>*>(partials), in_shared);
}

void sum_weight_gradient(int64_t width, DType weight_dtype, int64_t rows, const void* partials, void* dweight,
                         cudaStream_t stream) {
  with_type(weight_dtype, [&]<typename T>() {
    launch(&sum_columns<T>, dim3(static_cast<unsigned>(ops::div_up(width, kSumColumns))), dim3(kSumColumns, kSumRows),
           0, stream, static_cast<const Accumulate<T>*>(partials), ops::div_up(rows, ops::cuda_norm_block_rows(rows)),
           width, static_cast<T*>(dweight));
  });
}

}  // namespace

void launch_rms_norm(const ops::RmsNorm& args, DType weight_dtype, int64_t rows, cudaStream_t stream) {
  if (rows == 0) return;
  with_types(args.x.dtype, args.y.dtype, [&]<typename X, typename Y>() {
    constexpr int pack = kWide<X, Y>;
    const bool wide = in_packs(args.x, args.width, pack) && in_packs(args.y, args.width, pack) &&
                      weight_in_packs(args.weight, weight_dtype, pack);
    const StoredX<X> x{static_cast<const X*>(args.x.data), args.x.stride};
    wide ? forward<X, Y, pack>(x, args, weight_dtype, rows, stream)
         : forward<X, Y, 1>(x, args, weight_dtype, rows, stream);
  });
}

void launch_add_rms_norm(const ops::AddRows& add, const ops::RmsNorm& args, DType weight_dtype, int64_t rows,
                         cudaStream_t stream) {
  if (rows == 0) return;
  const bool a_alike = add.a.dtype == add.sum.dtype;
  const ops::ConstRows &alike = a_alike ? add.a : add.b, &other = a_alike ? add.b : add.a;
  with_types(add.sum.dtype, args.y.dtype, [&]<typename X, typename Y>() {
    constexpr int pack = kWide<X, Y>;
    const bool wide = in_packs(alike, args.width, pack) && in_packs(other, args.width, pack) &&
                      in_packs(add.sum, args.width, pack) && in_packs(args.y, args.width, pack) &&
                      weight_in_packs(args.weight, weight_dtype, pack);
    const SummedX<X> x{static_cast<const X*>(alike.data), alike.stride,  other.data, other.dtype, other.stride,
                       static_cast<X*>(add.sum.data),     add.sum.stride};
    wide ? forward<X, Y, pack>(x, args, weight_dtype, rows, stream)
         : forward<X, Y, 1>(x, args, weight_dtype, rows, stream);
  });
}

void launch_rms_norm_backward(const ops::RmsNormBackward& args, DType weight_dtype, int64_t rows, void* partials,
                              void* dweight, cudaStream_t stream) {
  if (rows > 0)
    with_types(args.x.dtype, args.grad_y.dtype, [&]<typename X, typename Y>() {
      constexpr int pack = kWide<X, Y>;
      const bool wide = in_packs(args.x, args.width, pack) && in_packs(args.grad_y, args.width, pack) &&
                        in_packs(args.dx, args.width, pack) && weight_in_packs(args.weight, weight_dtype, pack);
      const StoreDx<X> dx{static_cast<X*>(args.dx.data), args.dx.stride};
      wide ? backward<X, Y, pack>(dx, args, weight_dtype, rows, partials, stream)
           : backward<X, Y, 1>(dx, args, weight_dtype, rows, partials, stream);
    });
  sum_weight_gradient(args.width, weight_dtype, rows, partials, dweight, stream);
}

void launch_rms_norm_backward_add(const ops::AddRows& add, const ops::Rows& copy, const ops::RmsNormBackward& args,
                                  DType weight_dtype, int64_t rows, void* partials, void* dweight,
                                  cudaStream_t stream) {
  if (rows > 0)
    with_types(args.x.dtype, args.grad_y.dtype, [&]<typename X, typename Y>() {
      constexpr int pack = kWide<X, Y>;
      const bool wide = in_packs(args.x, args.width, pack) && in_packs(args.grad_y, args.width, pack) &&
                        in_packs(add.a, args.width, pack) && in_packs(add.sum, args.width, pack) &&
                        (copy.data == nullptr || in_packs(copy, args.width, pack)) &&
                        weight_in_packs(args.weight, weight_dtype, pack);
      const AddDx<X> dx{add.a.data,     add.a.dtype, add.a.stride, add.sum.data, add.sum.dtype != args.x.dtype,
                        add.sum.stride, copy.data,   copy.dtype,   copy.stride};
      wide ? backward<X, Y, pack>(dx, args, weight_dtype, rows, partials, stream)
           : backward<X, Y, 1>(dx, args, weight_dtype, rows, partials, stream);
    });
  sum_weight_gradient(args.width, weight_dtype, rows, partials, dweight, stream);
}

}  // namespace plimsoll::cuda
