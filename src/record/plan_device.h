// The plan device: libtorch's private backend, renamed `plan`. Its tensors have shape, strides, dtype and a buffer
// id, and no memory. Linking libplimsoll registers it.
#pragma once

#include <ATen/core/Tensor.h>

#include "plimsoll/trace.h"

namespace plimsoll {

constexpr c10::DeviceType kPlanDevice = c10::DeviceType::PrivateUse1;

inline bool is_plan(const at::Tensor& tensor) {
  return tensor.defined() && tensor.device().type() == kPlanDevice;
}

/// A plan tensor over a new buffer of the active recorder. Throws UserError when nothing is being recorded.
at::Tensor make_plan_tensor(c10::IntArrayRef sizes, c10::IntArrayRef strides, c10::ScalarType dtype);

/// A plan tensor over the storage of `base`.
at::Tensor make_plan_view(const at::Tensor& base, c10::IntArrayRef sizes, c10::IntArrayRef strides, int64_t offset,
                          c10::ScalarType dtype);

/// The buffer that a plan tensor lies in. Throws UserError for a tensor of another recording than the active one.
BufferId buffer_of(const at::Tensor& tensor);

/// Where a plan tensor lies.
View view_of(const at::Tensor& tensor);

/// A tensor on the meta device with the tensor's sizes, strides, offset and dtype.
at::Tensor meta_like(const at::Tensor& tensor);

}  // namespace plimsoll
