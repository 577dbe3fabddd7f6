// Implements the dispatch from an element type chosen at run time to a C++ type, for launchers.
#pragma once

#include "ops/device_support.cuh"
#include "plimsoll/error.h"
#include "plimsoll/trace.h"

namespace plimsoll::cuda {

/// Calls work.operator()<T>() with the device's type of `dtype`.
template <typename Work>
void with_type(DType dtype, Work work) {
  switch (dtype) {
    case DType::float32:
      return work.template operator()<float>();
    case DType::bfloat16:
      return work.template operator()<bfloat16>();
    case DType::float16:
      return work.template operator()<float16>();
    case DType::float64:
      return work.template operator()<double>();
    default:
      throw InternalError("a CUDA kernel for this element type");
  }
}

/// Calls work.operator() with two types; float64 is only combined with itself.
template <typename Work>
void with_types(DType first, DType second, Work work) {
  check((first == DType::float64) == (second == DType::float64), "float64 mixes with float64 only");
  if (first == DType::float64) return work.template operator()<double, double>();
  with_type(first, [&]<typename A>() {
    with_type(second, [&]<typename B>() {
      if constexpr (sizeof(A) < 8 && sizeof(B) < 8) work.template operator()<A, B>();
    });
  });
}

}  // namespace plimsoll::cuda
