// Declares the scratch memory of our operators' CPU kernels before they run. The planner budgets it; tests compare it
// with the allocations that the allocator sees.
#pragma once

#include <cstdint>
#include <optional>

#include "ops/arithmetic/library_matmul.h"
#include "plimsoll/trace.h"

namespace plimsoll::ops {

/// Returns the maximum bytes that `op` holds at a time in addition to its operands and results when it runs on
/// `threads` CPU threads. Each allocation is rounded up to 64 bytes. Returns nullopt for operators that are not ours,
/// except libtorch's matmuls that go through float32 blocks (ops/arithmetic/products_cpu.h). The scratch
/// of our kernels is exact, by their own plans; `matmul_scratch` returns the scratch of matmuls that they leave to
/// libtorch. Memory that libraries allocate outside libtorch's allocator is not included.
std::optional<int64_t> cpu_workspace_bytes(const Op& op, int threads, const MatmulScratch& matmul_scratch);

}  // namespace plimsoll::ops
