#include "ops/layers/add_rows.h"

#include <utility>

#include "ops/kernel_dtypes.h"

namespace plimsoll::ops {

using c10::BFloat16;
using c10::Half;
using namespace lanes;

namespace {

template <typename A, typename B>
PLIMSOLL_INLINE void add(const AddRows& args, int64_t begin, int64_t end) {
  for (int64_t row = begin; row < end; ++row) {
    const A* a = row_of<A>(args.a, row);
    const B* b = row_of<B>(args.b, row);
    A* sum = row_of<A>(args.sum, row);
    PLIMSOLL_FOR_LANES(i, partial, args.width) {
      store_some(sum + i, load_some(a + i, partial) + load_some(b + i, partial), partial);
    }
  }
}

}  // namespace

#define PLIMSOLL_SUM(A, B, suffix)                                                                                  \
  PLIMSOLL_VARIANTS(void, add_rows_##suffix, (const AddRows& args, int64_t begin, int64_t end), (args, begin, end), \
                    { add<A, B>(args, begin, end); })
PLIMSOLL_SUM(float, float, f32)
PLIMSOLL_SUM(float, BFloat16, f32_bf16)
PLIMSOLL_SUM(float, Half, f32_f16)
PLIMSOLL_SUM(BFloat16, BFloat16, bf16)
PLIMSOLL_SUM(Half, Half, f16)
PLIMSOLL_SUM(double, double, f64)

void add_rows(AddRows args, int64_t begin, int64_t end) {
  const DType sum = args.sum.dtype;
  if (args.a.dtype != sum) std::swap(args.a, args.b);
  const DType other = args.b.dtype;
  check(args.a.dtype == sum && (other == sum || sum == DType::float32), "add_rows: no kernel for these dtypes");
  switch (other) {
    case DType::float32:
      return add_rows_f32(args, begin, end);
    case DType::float64:
      return add_rows_f64(args, begin, end);
    case DType::bfloat16:
      return sum == other ? add_rows_bf16(args, begin, end) : add_rows_f32_bf16(args, begin, end);
    case DType::float16:
      return sum == other ? add_rows_f16(args, begin, end) : add_rows_f32_f16(args, begin, end);
    default:
      throw InternalError("add_rows: not a floating dtype");
  }
}

}  // namespace plimsoll::ops
