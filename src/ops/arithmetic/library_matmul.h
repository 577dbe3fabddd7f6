// Declares the matmuls that our operators' CPU kernels leave to libtorch, for estimates of their scratch.
#pragma once

#include <functional>

#include "plimsoll/trace.h"

namespace plimsoll::ops {

/// A matmul that libtorch computes: result [m, n] = left [m, k] x right [k, n], or result + that with `adds`. Only
/// sizes, strides and dtype of the views are read.
struct LibraryMatmul {
  View left, right, result;
  bool adds = false;
};

/// A function that returns the bytes that a matmul allocates from libtorch's allocator in addition to its operands.
/// The library that runs it, and its scratch, depend on the processor, the library's version, the shape and the
/// threads. No formula covers this. The scratch is measured or, if the matmul is too large for that, estimated
/// (device/matmul_scratch).
using MatmulScratch = std::function<int64_t(const LibraryMatmul&)>;

}  // namespace plimsoll::ops
