// Declares the bytes of a buffer between the first and the last element of a view.
#pragma once

#include "plimsoll/trace.h"

namespace plimsoll {

/// A half-open range of bytes, [begin, end), counted from the buffer's start.
struct ByteRange {
  int64_t begin = 0, end = 0;
};

/// Returns the range from a view's first element to its last, gaps included; empty if the view has no elements.
inline ByteRange byte_range(const View& view) {
  if (view.elements() == 0) return {};
  int64_t last = view.offset;
  for (size_t d = 0; d < view.sizes.size(); ++d) last += (view.sizes[d] - 1) * view.strides[d];
  return {view.offset * element_bytes(view.dtype), (last + 1) * element_bytes(view.dtype)};
}

}  // namespace plimsoll
