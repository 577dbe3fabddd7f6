// Matrix products that our operators' CPU kernels leave to libtorch: which, for the figures of their scratch.
#pragma once

#include <functional>

#include "plimsoll/trace.h"

namespace plimsoll::ops {

/// result [m, n] = left [m, k] x right [k, n], or result + that with `adds`. Of the views only sizes, strides and dtype
/// are read.
struct LibraryProduct {
  View left, right, result;
  bool adds = false;
};

/// Bytes that a product takes from libtorch's allocator beside its operands. Whose kernel runs it, and what that takes,
/// depends on the processor, the library's version, the shape and the threads: no formula says it, so it is measured
/// or, if the matmul is too large for that, estimated (device/product_scratch).
using ProductScratch = std::function<int64_t(const LibraryProduct&)>;

}  // namespace plimsoll::ops
