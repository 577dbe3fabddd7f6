// From an element type known at run time to one that kernels are compiled for.
#pragma once

#include "ops/cuda/device_support.cuh"
#include "plimsoll/dtype.h"
#include "plimsoll/error.h"

namespace plimsoll::cuda {

template <typename T>
struct Element {
  using Type = T;
};

/// Calls `visit(Element<T>())` for the floating type T that `dtype` is.
template <typename Visit>
void with_element(DType dtype, const Visit& visit) {
  switch (dtype) {
    case DType::float32:
      return visit(Element<float>());
    case DType::float64:
      return visit(Element<double>());
    case DType::bfloat16:
      return visit(Element<bfloat16>());
    case DType::float16:
      return visit(Element<float16>());
    default:
      throw InternalError("a CUDA kernel was asked for elements that are not of a floating type");
  }
}

/// Element `i` of an array whose type is known at run time: for the few numbers that a thread reads once.
template <typename S>
__device__ inline S load_as(const void* data, DType dtype, int64_t i) {
  switch (dtype) {
    case DType::float64:
      return static_cast<S>(static_cast<const double*>(data)[i]);
    case DType::bfloat16:
      return widen(static_cast<const bfloat16*>(data)[i]);
    case DType::float16:
      return widen(static_cast<const float16*>(data)[i]);
    default:
      return static_cast<S>(static_cast<const float*>(data)[i]);
  }
}
template <typename S>
__device__ inline void store_as(void* data, DType dtype, int64_t i, S value) {
  switch (dtype) {
    case DType::float64:
      static_cast<double*>(data)[i] = value;
      return;
    case DType::bfloat16:
      static_cast<bfloat16*>(data)[i] = narrow<bfloat16>(static_cast<float>(value));
      return;
    case DType::float16:
      static_cast<float16*>(data)[i] = narrow<float16>(static_cast<float>(value));
      return;
    default:
      static_cast<float*>(data)[i] = static_cast<float>(value);
  }
}

}  // namespace plimsoll::cuda
