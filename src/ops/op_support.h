// Declares helpers that the definitions of our operators share: checks, conversions, calling an operator by name,
// autocast.
#pragma once

#include <ATen/ATen.h>
#include <ATen/autocast_mode.h>
#include <ATen/core/dispatch/Dispatcher.h>

#include <sstream>
#include <string>

#include "cost/operators.h"
#include "ops/kernels_cpu.h"
#include "ops/libtorch_types.h"
#include "ops/rows.h"
#include "plimsoll/error.h"

namespace plimsoll::ops {

/// Throws UserError "OPERATOR: what" unless `condition` holds; the parts of `what` are streamed.
template <typename... Parts>
void require(bool condition, const char* op, const Parts&... what) {
  if (condition) return;
  std::ostringstream message;
  message << op << ": ";
  (message << ... << what);
  throw UserError(message.str(), UserError::Kind::failure);
}

inline bool is_floating(at::ScalarType type) {
  return type == at::kFloat || type == at::kBFloat16 || type == at::kHalf || type == at::kDouble;
}

inline void require_floating(const char* op, const char* name, const at::Tensor& tensor) {
  require(is_floating(tensor.scalar_type()), op, name, " is ", c10::toString(tensor.scalar_type()),
          "; allowed are float32, bfloat16, float16 and float64");
}

/// Returns float64 for float64, float32 for every other type.
inline at::ScalarType accumulator(at::ScalarType type) {
  return type == at::kDouble ? at::kDouble : at::kFloat;
}

inline DType dtype_of(const at::Tensor& tensor) {
  return plimsoll::dtype_of(tensor.scalar_type());
}

/// Returns a contiguous copy of a tensor that is not contiguous. The copy has one dimension more while it is written:
/// to transpose a matrix, libtorch would allocate a buffer of its own.
inline at::Tensor contiguous_copy(const at::Tensor& tensor) {
  return tensor.unsqueeze(0).contiguous().squeeze(0);
}
/// Returns the matrix itself if its rows are contiguous elements, else a contiguous copy. Matmuls read the
/// result in place.
inline at::Tensor matrix_rows(const at::Tensor& matrix) {
  return matrix.stride(1) == 1 && matrix.stride(0) >= matrix.size(1) ? matrix : contiguous_copy(matrix);
}

/// Returns the tensor itself if it is rows of one constant stride, else a contiguous copy.
inline at::Tensor as_rows(const at::Tensor& tensor) {
  return row_stride(tensor.sizes(), tensor.strides()) ? tensor : contiguous_copy(tensor);
}
inline Rows rows(const at::Tensor& tensor) {
  return {tensor.data_ptr(), dtype_of(tensor), row_stride(tensor.sizes(), tensor.strides()).value()};
}
inline ConstRows const_rows(const at::Tensor& tensor) {
  return {tensor.const_data_ptr(), dtype_of(tensor), row_stride(tensor.sizes(), tensor.strides()).value()};
}
inline int64_t row_count(const at::Tensor& tensor) {
  return tensor.size(-1) == 0 ? 0 : tensor.numel() / tensor.size(-1);
}

/// Returns the operator `name` ("plimsoll::rms_norm") as a typed handle.
template <typename Signature>
c10::TypedOperatorHandle<Signature> operator_handle(const char* name, const char* overload = "") {
  return c10::Dispatcher::singleton().findSchemaOrThrow(name, overload).typed<Signature>();
}

/// Returns the operator that the backward of `name` calls, by the table of operators.
template <typename Signature>
c10::TypedOperatorHandle<Signature> gradient_handle(const char* name) {
  return operator_handle<Signature>(std::string(operator_row(name)->gradient).c_str());
}

/// A scope in which autocast on `device` is not applied again to called operators.
struct AutocastOff {
  explicit AutocastOff(c10::DeviceType device)
      : guard(c10::DispatchKeySet(at::autocast::get_autocast_dispatch_key_from_device_type(device))) {}
  c10::impl::ExcludeDispatchKeyGuard guard;
};

/// Returns `tensor` in the lower precision of autocast on `device`; a parameter's copy is cached as libtorch caches its
/// own.
inline at::Tensor autocast(const at::Tensor& tensor, c10::DeviceType device) {
  return at::autocast::cached_cast(at::autocast::get_autocast_dtype(device), tensor, device);
}

}  // namespace plimsoll::ops

/// Registers `kernel<device>` for autocast on every device that Plimsoll knows.
#define PLIMSOLL_AUTOCAST(name, kernel)           \
  TORCH_LIBRARY_IMPL(plimsoll, AutocastCPU, m) {  \
    m.impl(name, kernel<c10::DeviceType::CPU>);   \
  }                                               \
  TORCH_LIBRARY_IMPL(plimsoll, AutocastCUDA, m) { \
    m.impl(name, kernel<c10::DeviceType::CUDA>);  \
  }                                               \
  TORCH_LIBRARY_IMPL(plimsoll, AutocastIPU, m) {  \
    m.impl(name, kernel<c10::DeviceType::IPU>);   \
  }
