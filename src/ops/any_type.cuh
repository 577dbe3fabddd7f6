// Implements access to elements whose type kernels learn at run time.
#pragma once

#include "ops/device_support.cuh"
#include "plimsoll/trace.h"

namespace plimsoll::cuda {

/// Returns element `i` of an array whose type is known at run time. It is for the few elements that a thread reads
/// once.
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
