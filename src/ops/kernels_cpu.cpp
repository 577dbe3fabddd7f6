#include "ops/kernels_cpu.h"

#include <type_traits>
#include <utility>

#include "ops/kernel_dtypes.h"
#include "ops/lanes.h"
#include "plimsoll/error.h"

namespace plimsoll::ops {

using c10::BFloat16;
using c10::Half;
using namespace lanes;

namespace {

template <typename X, typename Y>
PLIMSOLL_INLINE void rms_norm(const RmsNorm& args, int64_t begin, int64_t end) {
  using V = Vector<X>;
  const auto* weight = static_cast<const Scalar<X>*>(args.weight);
  for (int64_t row = begin; row < end; ++row) {
    const X* x = row_of<X>(args.x, row);
    Y* y = row_of<Y>(args.y, row);
    V squares{};
    PLIMSOLL_FOR_LANES(i, partial, args.width) {
      const V v = load_some(x + i, partial);
      squares += v * v;
    }
    const Scalar<X> mean = sum(squares) / static_cast<Scalar<X>>(args.width);
    // A row of zeros has no scale (kernel_arguments.h), except if eps is below 0 (rms_norm.h). Its result is 0 anyway.
    const auto eps = static_cast<Scalar<X>>(args.eps);
    const Scalar<X> rstd = mean == 0 && eps >= 0 ? 1 : 1 / std::sqrt(mean + std::abs(eps));
    static_cast<Scalar<X>*>(args.rstd)[row] = rstd;
    PLIMSOLL_FOR_LANES(i, partial, args.width) {
      store_some(y + i, load_some(x + i, partial) * rstd * load_some(weight + i, partial), partial);
    }
  }
}

template <typename X, typename Y>
PLIMSOLL_INLINE void rms_norm_backward(const RmsNormBackward& args, void* partial_sums, int64_t begin, int64_t end) {
  using V = Vector<X>;
  const auto* weight = static_cast<const Scalar<X>*>(args.weight);
  auto* sums = static_cast<Scalar<X>*>(partial_sums);
  for (int64_t row = begin; row < end; ++row) {
    const X* x = row_of<X>(args.x, row);
    const Y* grad = row_of<Y>(args.grad_y, row);
    X* dx = row_of<X>(args.dx, row);
    const Scalar<X> rstd = static_cast<const Scalar<X>*>(args.rstd)[row];
    V dot{};
    PLIMSOLL_FOR_LANES(i, partial, args.width) {
      const V g = load_some(grad + i, partial), normal = load_some(x + i, partial) * rstd;
      const V product = g * normal;
      dot += product * load_some(weight + i, partial);
      store_some(sums + i, load_some(static_cast<const Scalar<X>*>(sums) + i, partial) + product, partial);
    }
    const Scalar<X> mean = sum(dot) / static_cast<Scalar<X>>(args.width);
    PLIMSOLL_FOR_LANES(i, partial, args.width) {
      const V g = load_some(grad + i, partial) * load_some(weight + i, partial);
      store_some(dx + i, (g - load_some(x + i, partial) * rstd * mean) * rstd, partial);
    }
  }
}

template <typename T>
PLIMSOLL_INLINE void sum_partial_rows(const void* partials, int64_t count, int64_t width, void* out, int64_t begin,
                                      int64_t end) {
  const auto* from = static_cast<const Scalar<T>*>(partials);
  PLIMSOLL_FOR_LANES(i, partial, end - begin) {
    Vector<T> total{};
    for (int64_t row = 0; row < count; ++row) total += load_some(from + row * width + begin + i, partial);
    store_some(static_cast<T*>(out) + begin + i, total, partial);
  }
}

template <typename T>
PLIMSOLL_INLINE void swiglu(const ConstRows& gate_up, const Rows& y, int64_t width, int64_t begin, int64_t end) {
  for (int64_t row = begin; row < end; ++row) {
    const T* gate = row_of<T>(gate_up, row);
    T* to = row_of<T>(y, row);
    PLIMSOLL_FOR_LANES(i, partial, width) {
      const Vector<T> g = load_some(gate + i, partial);
      store_some(to + i, g / (lanes::exp(-g) + 1) * load_some(gate + width + i, partial), partial);
    }
  }
}

template <typename T>
PLIMSOLL_INLINE void swiglu_backward(const ConstRows& grad, const ConstRows& gate_up, const Rows& grad_gate_up,
                                     int64_t width, int64_t begin, int64_t end) {
  for (int64_t row = begin; row < end; ++row) {
    const T* gate = row_of<T>(gate_up, row);
    const T* dy = row_of<T>(grad, row);
    T* to = row_of<T>(grad_gate_up, row);
    PLIMSOLL_FOR_LANES(i, partial, width) {
      const Vector<T> g = load_some(gate + i, partial), d = load_some(dy + i, partial);
      const Vector<T> sigmoid = 1 / (lanes::exp(-g) + 1), silu = g * sigmoid;
      store_some(to + i, d * load_some(gate + width + i, partial) * (sigmoid + silu * (1 - sigmoid)), partial);
      store_some(to + width + i, d * silu, partial);
    }
  }
}

/// Computes 1 + exp(-2u), the divisor of gelu's tanh form, and the derivative of 2u. Beyond 10 gelu is x or 0 to the
/// last bit.
template <typename V>
PLIMSOLL_INLINE void gelu_parts(const V& x, V& divisor, V& slope) {
  constexpr double kTwice = 1.5957691216057308, kCube = 0.044715;  // 2 sqrt(2 / pi)
  using S = std::remove_cvref_t<decltype(x[0])>;
  const V most = splat<V>(S{10}), least = splat<V>(S{-10});
  const V near = where_below(x, least, least, where_below(most, x, most, x));
  const V square = near * near;
  divisor = 1 + lanes::exp(-(near * static_cast<S>(kTwice) * (1 + square * static_cast<S>(kCube))));
  slope = static_cast<S>(kTwice) * (1 + square * static_cast<S>(3 * kCube));
}

template <typename T>
PLIMSOLL_INLINE void geglu(const ConstRows& gate_up, const Rows& y, int64_t width, int64_t begin, int64_t end) {
  for (int64_t row = begin; row < end; ++row) {
    const T* gate = row_of<T>(gate_up, row);
    T* to = row_of<T>(y, row);
    PLIMSOLL_FOR_LANES(i, partial, width) {
      const Vector<T> g = load_some(gate + i, partial);
      Vector<T> divisor{}, slope{};
      gelu_parts(g, divisor, slope);
      store_some(to + i, g / divisor * load_some(gate + width + i, partial), partial);
    }
  }
}

template <typename T>
PLIMSOLL_INLINE void geglu_backward(const ConstRows& grad, const ConstRows& gate_up, const Rows& grad_gate_up,
                                    int64_t width, int64_t begin, int64_t end) {
  for (int64_t row = begin; row < end; ++row) {
    const T* gate = row_of<T>(gate_up, row);
    const T* dy = row_of<T>(grad, row);
    T* to = row_of<T>(grad_gate_up, row);
    PLIMSOLL_FOR_LANES(i, partial, width) {
      const Vector<T> g = load_some(gate + i, partial), d = load_some(dy + i, partial);
      Vector<T> divisor{}, slope{};
      gelu_parts(g, divisor, slope);
      const Vector<T> share = 1 / divisor, gelu = g * share;
      store_some(to + i, d * load_some(gate + width + i, partial) * (share + gelu * (1 - share) * slope), partial);
      store_some(to + width + i, d * gelu, partial);
    }
  }
}

template <typename T>
PLIMSOLL_INLINE void split_add(const SplitAdd& args, int64_t begin, int64_t end) {
  for (int64_t row = begin; row < end; ++row) {
    const T* part = row_of<T>(args.part, row);
    T* high = row_of<T>(args.high, row);
    T* low = row_of<T>(args.low, row);
    PLIMSOLL_FOR_LANES(i, partial, args.width) {
      Vector<T> total = load_some(part + i, partial);
      if (args.read_low) total += load_some(static_cast<const T*>(low) + i, partial);
      total += load_some(static_cast<const T*>(high) + i, partial);
      store_some(high + i, total, partial);
      if (args.write_low) store_some(low + i, total - load_some(static_cast<const T*>(high) + i, partial), partial);
    }
  }
}

/// Returns the sum of the squares of `scale` x each of `size` elements, summed in the type of the arithmetic.
template <typename T>
PLIMSOLL_INLINE double scaled_squares(const T* x, int64_t size, float scale) {
  Vector<T> squares{};
  PLIMSOLL_FOR_LANES(i, partial, size) {
    const Vector<T> v = load_some(x + i, partial) * scale;
    squares += v * v;
  }
  return static_cast<double>(sum(squares));
}

template <typename T>
PLIMSOLL_INLINE void sum_squares(const void* data, int64_t begin, int64_t end, double& total) {
  const T* x = static_cast<const T*>(data) + begin;
  constexpr int64_t kBlock = 32 * kLanes;
  for (int64_t block = 0; block < end - begin; block += kBlock) {
    const int64_t size = end - begin - block < kBlock ? end - begin - block : kBlock;
    double squares = scaled_squares(x + block, size, 1);
    // Squares in float32 overflow from elements of 2e19 on, and lose digits below 1e-15. Scaling by powers of two loses
    // none.
    if constexpr (!std::is_same_v<T, double>) {
      if (!(squares < 1e37)) {
        squares = scaled_squares(x + block, size, 0x1p-96f) * 0x1p192;
      } else if (squares < 1e-25) {
        squares = scaled_squares(x + block, size, 0x1p96f) * 0x1p-192;
      }
    }
    total += squares;
  }
}

}  // namespace

PLIMSOLL_KERNELS(sum_partial_rows,
                 (const void* partials, int64_t count, int64_t width, void* out, int64_t begin, int64_t end),
                 (partials, count, width, out, begin, end))
PLIMSOLL_KERNELS(swiglu, (const ConstRows& gate_up, const Rows& y, int64_t width, int64_t begin, int64_t end),
                 (gate_up, y, width, begin, end))
PLIMSOLL_KERNELS(swiglu_backward,
                 (const ConstRows& grad, const ConstRows& gate_up, const Rows& out, int64_t width, int64_t begin,
                  int64_t end),
                 (grad, gate_up, out, width, begin, end))
PLIMSOLL_KERNELS(geglu, (const ConstRows& gate_up, const Rows& y, int64_t width, int64_t begin, int64_t end),
                 (gate_up, y, width, begin, end))
PLIMSOLL_KERNELS(geglu_backward,
                 (const ConstRows& grad, const ConstRows& gate_up, const Rows& out, int64_t width, int64_t begin,
                  int64_t end),
                 (grad, gate_up, out, width, begin, end))
PLIMSOLL_KERNELS(split_add, (const SplitAdd& args, int64_t begin, int64_t end), (args, begin, end))
PLIMSOLL_KERNELS(sum_squares, (const void* data, int64_t begin, int64_t end, double& total), (data, begin, end, total))

// The norms have two element types: the input's and the result's.
#define PLIMSOLL_NORM(X, Y, suffix)                                                                                 \
  PLIMSOLL_VARIANTS(void, rms_norm_##suffix, (const RmsNorm& args, int64_t begin, int64_t end), (args, begin, end), \
                    { rms_norm<X, Y>(args, begin, end); })                                                          \
  PLIMSOLL_VARIANTS(void, rms_norm_backward_##suffix,                                                               \
                    (const RmsNormBackward& args, void* partial, int64_t begin, int64_t end),                       \
                    (args, partial, begin, end), { rms_norm_backward<X, Y>(args, partial, begin, end); })
#define PLIMSOLL_NORMS(each)                                                                             \
  each(float, float, f32_f32) each(float, BFloat16, f32_bf16) each(float, Half, f32_f16)                 \
      each(BFloat16, float, bf16_f32) each(BFloat16, BFloat16, bf16_bf16) each(BFloat16, Half, bf16_f16) \
          each(Half, float, f16_f32) each(Half, BFloat16, f16_bf16) each(Half, Half, f16_f16)            \
              each(double, double, f64_f64)
PLIMSOLL_NORMS(PLIMSOLL_NORM)

template <typename T>
constexpr DType kDType = DType::float32;
template <>
constexpr DType kDType<double> = DType::float64;
template <>
constexpr DType kDType<BFloat16> = DType::bfloat16;
template <>
constexpr DType kDType<Half> = DType::float16;

void rms_norm_rows(const RmsNorm& args, int64_t begin, int64_t end) {
#define PLIMSOLL_PICK(X, Y, suffix) \
  if (args.x.dtype == kDType<X> && args.y.dtype == kDType<Y>) return rms_norm_##suffix(args, begin, end);
  PLIMSOLL_NORMS(PLIMSOLL_PICK)
#undef PLIMSOLL_PICK
  throw InternalError("rms_norm_rows: no kernel for these dtypes");
}

void rms_norm_backward_rows(const RmsNormBackward& args, void* partial, int64_t begin, int64_t end) {
#define PLIMSOLL_PICK(X, Y, suffix)                                \
  if (args.x.dtype == kDType<X> && args.grad_y.dtype == kDType<Y>) \
    return rms_norm_backward_##suffix(args, partial, begin, end);
  PLIMSOLL_NORMS(PLIMSOLL_PICK)
#undef PLIMSOLL_PICK
  throw InternalError("rms_norm_backward_rows: no kernel for these dtypes");
}

void sum_partials(const void* partials, int64_t count, int64_t width, DType accumulator, void* out, DType out_dtype,
                  int64_t begin, int64_t end) {
  check((accumulator == DType::float64) == (out_dtype == DType::float64),
        "sum_partials: float64 mixes with float64 only");
  pick_sum_partial_rows(out_dtype, partials, count, width, out, begin, end);
}

void swiglu_rows(const ConstRows& gate_up, const Rows& y, int64_t width, int64_t begin, int64_t end) {
  pick_swiglu(y.dtype, gate_up, y, width, begin, end);
}

void swiglu_backward_rows(const ConstRows& grad, const ConstRows& gate_up, const Rows& grad_gate_up, int64_t width,
                          int64_t begin, int64_t end) {
  pick_swiglu_backward(gate_up.dtype, grad, gate_up, grad_gate_up, width, begin, end);
}

void geglu_rows(const ConstRows& gate_up, const Rows& y, int64_t width, int64_t begin, int64_t end) {
  pick_geglu(y.dtype, gate_up, y, width, begin, end);
}

void geglu_backward_rows(const ConstRows& grad, const ConstRows& gate_up, const Rows& grad_gate_up, int64_t width,
                         int64_t begin, int64_t end) {
  pick_geglu_backward(gate_up.dtype, grad, gate_up, grad_gate_up, width, begin, end);
}

double sum_of_squares(const void* data, DType dtype, int64_t begin, int64_t end) {
  double total = 0;
  pick_sum_squares(dtype, data, begin, end, total);
  return total;
}

void split_add_rows(const SplitAdd& args, int64_t begin, int64_t end) {
  pick_split_add(args.high.dtype, args, begin, end);
}

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
