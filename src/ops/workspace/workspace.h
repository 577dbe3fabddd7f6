// Declares the scratch memory of operators before they run, on the CPU and on CUDA: one table with a row for each
// operator. The planner budgets the scratch; tests compare it with the allocations that the allocator sees. A plan for
// a GPU can so be made on a machine without one.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string_view>

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
/// (device/kernel_scratch.h).
using MatmulScratch = std::function<int64_t(const LibraryMatmul&)>;

struct ScratchRow;

/// Returns the row of an op by its name, as operator_row() does (cost/operators.h); nullptr: the table has none.
const ScratchRow* scratch_row(std::string_view name);

/// Returns the maximum bytes that `op` holds at a time in addition to its operands and results when it runs on
/// `threads` CPU threads. Each allocation is rounded up to 64 bytes. Returns nullopt for operators that are not ours,
/// except libtorch's matmuls that go through float32 blocks (ops/products_cpu.h). The scratch
/// of our kernels is exact, by their own plans; `matmul_scratch` returns the scratch of matmuls that they leave to
/// libtorch. Memory that libraries allocate outside libtorch's allocator is not included.
std::optional<int64_t> cpu_workspace_bytes(const Op& op, int threads, const MatmulScratch& matmul_scratch);

/// Returns the maximum bytes that the op's CUDA kernel holds at a time in addition to its operands and results. Each
/// allocation is rounded up to 256 bytes; the scratch of libtorch's matmuls and cuBLAS's own workspace are not
/// included. nullopt: unknown, the first run measures it. `multiprocessors`: of the device; the scratch of attention's
/// flash kernels depends on it. 0: unknown, the maximum of any device. `flash_attention`: the device runs these
/// kernels.
std::optional<int64_t> cuda_workspace_bytes(const Op& op, int multiprocessors = 0, bool flash_attention = true);

/// Returns the share of the scores of a recorded attention that its kernels compute: those that a causal mask or a
/// window leaves, in tiles of 128 queries. 1 for all other ops.
double computed_share(const Op& op);

/// Returns Op::staged_bytes of a recorded call: bytes that CUDA kernels between the op's matmuls read and write.
int64_t staged_bytes(const Op& op);

}  // namespace plimsoll::ops
