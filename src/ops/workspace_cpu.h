// The scratch memory of our operators' CPU kernels, before they run: the planner budgets it, tests compare it with what
// the allocator sees.
#pragma once

#include <cstdint>
#include <optional>

#include "plimsoll/bytes.h"
#include "plimsoll/trace.h"

namespace plimsoll::ops {

/// What oneDNN's matrix products of 16-bit types take on each thread through libtorch's allocator, at the most: it
/// depends on the CPU and on oneDNN's choice of blocks (seen: 20 to 410 KB). Products in float32 blocks
/// (ops/products_cpu.h) take what product_scratch() says instead.
constexpr int64_t kMatrixScratchBytes = 512 * KiB;

/// Greatest sum of bytes, each allocation rounded up to 64, that `op` holds at a time beside its operands and results
/// when it runs on `threads` CPU threads; nothing for operators that are not
/// ours, but for products of matrices where those are. An upper bound that is met, except
/// that matrix products of 16-bit types count with kMatrixScratchBytes a thread. What libraries take outside libtorch's
/// allocator is not in it.
std::optional<int64_t> cpu_workspace_bytes(const Op& op, int threads);

}  // namespace plimsoll::ops
