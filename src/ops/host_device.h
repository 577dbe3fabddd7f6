// Defines macros and types with which the arithmetic of a header compiles for a GPU and for the CPU, with the same bits
// on both.
#pragma once

#include <cmath>

#define PLIMSOLL_PRAGMA(text) _Pragma(#text)
#ifdef __CUDACC__
#define PLIMSOLL_HOST_DEVICE __host__ __device__ __forceinline__
#define PLIMSOLL_UNROLL(times) PLIMSOLL_PRAGMA(unroll times)
#else
#define PLIMSOLL_HOST_DEVICE [[gnu::always_inline]] inline
#define PLIMSOLL_UNROLL(times) PLIMSOLL_PRAGMA(GCC unroll times)
#endif

namespace plimsoll::ops {

/// A number whose products and sums are rounded one by one. GPU compilers fuse a product and a sum into one operation
/// if they can; CPU compilers do if the instruction set has it. The bits of a formula would then depend on the place
/// where it is computed.
template <typename Number>
struct Unfused {
  Number value;

  Unfused() = default;
  template <typename Other>
  PLIMSOLL_HOST_DEVICE explicit Unfused(Other other) : value(static_cast<Number>(other)) {}
  PLIMSOLL_HOST_DEVICE explicit operator Number() const { return value; }
};

// Operations without an intrinsic on a GPU (comparisons, signs) need none: they do not round.
#ifdef __CUDA_ARCH__
#define PLIMSOLL_ROUNDED(symbol, of_float, of_double)                                                \
  __device__ __forceinline__ Unfused<float> operator symbol(Unfused<float> a, Unfused<float> b) {    \
    return Unfused<float>(of_float(a.value, b.value));                                               \
  }                                                                                                  \
  __device__ __forceinline__ Unfused<double> operator symbol(Unfused<double> a, Unfused<double> b) { \
    return Unfused<double>(of_double(a.value, b.value));                                             \
  }
PLIMSOLL_ROUNDED(+, __fadd_rn, __dadd_rn)
PLIMSOLL_ROUNDED(-, __fsub_rn, __dsub_rn)
PLIMSOLL_ROUNDED(*, __fmul_rn, __dmul_rn)
PLIMSOLL_ROUNDED(/, __fdiv_rn, __ddiv_rn)
#undef PLIMSOLL_ROUNDED
__device__ __forceinline__ Unfused<float> square_root(Unfused<float> x) {
  return Unfused<float>(__fsqrt_rn(x.value));
}
__device__ __forceinline__ Unfused<double> square_root(Unfused<double> x) {
  return Unfused<double>(__dsqrt_rn(x.value));
}
#else
#define PLIMSOLL_ROUNDED(symbol)                                                               \
  template <typename Number>                                                                   \
  PLIMSOLL_HOST_DEVICE Unfused<Number> operator symbol(Unfused<Number> a, Unfused<Number> b) { \
    return Unfused<Number>(a.value symbol b.value);                                            \
  }
PLIMSOLL_ROUNDED(+)
PLIMSOLL_ROUNDED(-)
PLIMSOLL_ROUNDED(*)
PLIMSOLL_ROUNDED(/)
#undef PLIMSOLL_ROUNDED
template <typename Number>
PLIMSOLL_HOST_DEVICE Unfused<Number> square_root(Unfused<Number> x) {
  return Unfused<Number>(std::sqrt(x.value));
}
#endif
template <typename Number>
PLIMSOLL_HOST_DEVICE bool operator>(Unfused<Number> a, Unfused<Number> b) {
  return a.value > b.value;
}
template <typename Number>
PLIMSOLL_HOST_DEVICE bool operator<(Unfused<Number> a, Unfused<Number> b) {
  return a.value < b.value;
}

// Operations on plain numbers, for files that are compiled without such fusing (-ffp-contract=off).
PLIMSOLL_HOST_DEVICE float square_root(float x) {
  return std::sqrt(x);
}
PLIMSOLL_HOST_DEVICE double square_root(double x) {
  return std::sqrt(x);
}

}  // namespace plimsoll::ops
