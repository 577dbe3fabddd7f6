// The scratch memory of our operators' CPU kernels, before they run: the planner budgets it, tests compare it with what
// the allocator sees.
#pragma once

#include <cstdint>
#include <optional>

#include "ops/arithmetic/library_product.h"
#include "plimsoll/trace.h"

namespace plimsoll::ops {

/// Greatest sum of bytes, each allocation rounded up to 64, that `op` holds at a time beside its operands and results
/// when it runs on `threads` CPU threads; nothing for operators that are not ours,
/// but for libtorch's products of matrices where they go through float32 blocks (ops/arithmetic/products_cpu.h). What
/// our kernels take is exact, by their own plans; what a product takes that they leave to libtorch is asked of
/// `product_scratch`. What libraries take outside libtorch's allocator is not in it.
std::optional<int64_t> cpu_workspace_bytes(const Op& op, int threads, const ProductScratch& product_scratch);

}  // namespace plimsoll::ops
