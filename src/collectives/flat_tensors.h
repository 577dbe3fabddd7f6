// Implements helpers for the arguments of Exchange: flat tensors on the CPU and slices of them.
#pragma once

#include <ATen/core/Tensor.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "collectives/exchange_call.h"
#include "plimsoll/error.h"

namespace plimsoll {

/// Returns the first byte of a tensor on the CPU.
inline std::byte* bytes_of(const at::Tensor& tensor) {
  return static_cast<std::byte*>(tensor.data_ptr());
}

/// Returns the number of elements that slice `slice` (of `elements` elements) of a source has from element `from` of
/// the slice on, at most `max_elements`. The source has `source_elements` elements, so its last slices may be shorter
/// or empty.
inline int64_t part_of_slice(int64_t source_elements, int64_t slice, int64_t elements, int64_t from,
                             int64_t max_elements) {
  return std::clamp<int64_t>(source_elements - slice * elements - from, 0, std::min(max_elements, elements - from));
}

/// Describes a call. Throws InternalError unless both tensors are flat, contiguous and on the CPU.
inline ExchangeCall call_of(ExchangeKind kind, const at::Tensor& target, const at::Tensor& source, int detail) {
  for (const at::Tensor* tensor : {&target, &source}) {
    check(tensor->is_cpu() && tensor->dim() == 1 && tensor->is_contiguous(),
          "exchange: a tensor is not flat on the CPU");
  }
  ExchangeCall call{kind};
  call.target_type = static_cast<int32_t>(target.scalar_type());
  call.source_type = static_cast<int32_t>(source.scalar_type());
  call.detail = detail;
  call.target_elements = target.numel();
  call.source_elements = source.numel();
  return call;
}

}  // namespace plimsoll
