// What libtorch's matrix products take on this machine's CPU, found out by running them.
#pragma once

#include "ops/arithmetic/library_product.h"

namespace plimsoll {

/// Runs `product` once on `threads` threads, on zeros, and gives what it takes of libtorch's allocator on the thread
/// that calls it, laid out first-fit, each piece rounded up to 64 bytes. Operands take addresses only (pages that
/// nobody has written to are one page of zeros); the result takes its bytes for the time. What is known is not run
/// again in this process. Throws MemoryUnavailable where the machine has no addresses for the operands.
int64_t measured_product_scratch(const ops::LibraryProduct& product, int threads);

}  // namespace plimsoll
