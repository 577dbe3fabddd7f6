// Declares shared helpers of the tests of CUDA kernels. Kernels run on tensors of the CPU (cuda_on_cpu), so their
// launchers take these tensors' addresses.
#pragma once

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "cuda_on_cpu/cuda_on_cpu.h"
#include "ops/op_support.h"
#include "ops/ops_testing.h"

namespace plimsoll::ops::testing {

constexpr cuda_on_cpu::Order kOrders[] = {cuda_on_cpu::Order::ascending, cuda_on_cpu::Order::descending,
                                          cuda_on_cpu::Order::shuffled};

/// Sets the order of blocks and threads for its lifetime.
struct InOrder {
  explicit InOrder(cuda_on_cpu::Order order) { cuda_on_cpu::set_order(order); }
  ~InOrder() { cuda_on_cpu::set_order(cuda_on_cpu::Order::ascending); }
};

/// Returns random numbers, [rows, width]. Rows are `extra` elements further apart than they are long, and the first
/// begins `shift` elements after an aligned address.
inline at::Tensor random_rows(int64_t rows, int64_t width, at::ScalarType type, int64_t extra = 0, int64_t shift = 0) {
  at::Tensor memory = at::randn({shift + rows * (width + extra)}, at::kDouble).to(type);
  return memory.narrow(0, shift, rows * (width + extra)).view({rows, width + extra}).narrow(1, 0, width);
}

/// Returns a tensor of NaNs, so that elements that a kernel does not write are seen.
inline at::Tensor unwritten(at::IntArrayRef sizes, at::ScalarType type) {
  return at::full(sizes, std::numeric_limits<double>::quiet_NaN(), type);
}

}  // namespace plimsoll::ops::testing
