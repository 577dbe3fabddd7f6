// Defines PLIMSOLL_KERNELS, which compiles a kernel template for every floating dtype and every useful instruction
// set, and access to a row of a kernel's argument.
#pragma once

#include <c10/util/BFloat16.h>
#include <c10/util/Half.h>

#include "ops/cpu_capability.h"
#include "ops/kernel_arguments.h"
#include "ops/lanes.h"
#include "plimsoll/error.h"
#include "plimsoll/trace.h"

namespace plimsoll::ops {

/// The type that sums of T are held in: one, and a vector of them.
template <typename T>
using Scalar = typename lanes::Accumulate<T>::Scalar;
template <typename T>
using Vector = typename lanes::Accumulate<T>::Vector;

}  // namespace plimsoll::ops

// Defines `name_suffix(parameters)`, which calls `name<T> arguments` and is compiled for each instruction set.
#define PLIMSOLL_KERNEL(name, T, suffix, parameters, arguments) \
  PLIMSOLL_VARIANTS(void, name##_##suffix, parameters, arguments, { name<T> arguments; })

// Defines `name` for each element type, and `pick_name(dtype, arguments)`.
#define PLIMSOLL_KERNELS(name, parameters, arguments)               \
  PLIMSOLL_KERNEL(name, float, f32, parameters, arguments)          \
  PLIMSOLL_KERNEL(name, double, f64, parameters, arguments)         \
  PLIMSOLL_KERNEL(name, c10::BFloat16, bf16, parameters, arguments) \
  PLIMSOLL_KERNEL(name, c10::Half, f16, parameters, arguments)      \
  static void pick_##name(DType dtype, auto&&... rest) {            \
    switch (dtype) {                                                \
      case DType::float32:                                          \
        return name##_f32(rest...);                                 \
      case DType::float64:                                          \
        return name##_f64(rest...);                                 \
      case DType::bfloat16:                                         \
        return name##_bf16(rest...);                                \
      case DType::float16:                                          \
        return name##_f16(rest...);                                 \
      default:                                                      \
        throw InternalError(#name ": not a floating dtype");        \
    }                                                               \
  }

// Defines kernels that are templates on the accumulator and read `dtype` themselves.
#define PLIMSOLL_ACCUMULATOR_KERNELS(name, parameters, arguments)        \
  PLIMSOLL_KERNEL(name, float, f32, parameters, arguments)               \
  PLIMSOLL_KERNEL(name, double, f64, parameters, arguments)              \
  static void pick_##name(DType dtype, auto&&... rest) {                 \
    dtype == DType::float64 ? name##_f64(rest...) : name##_f32(rest...); \
  }

namespace plimsoll::ops {

/// Returns a row of a kernel's argument as elements of its type.
template <typename T>
PLIMSOLL_INLINE const T* row_of(const ConstRows& rows, int64_t row) {
  return static_cast<const T*>(rows.data) + row * rows.stride;
}
template <typename T>
PLIMSOLL_INLINE T* row_of(const Rows& rows, int64_t row) {
  return static_cast<T*>(rows.data) + row * rows.stride;
}

}  // namespace plimsoll::ops
