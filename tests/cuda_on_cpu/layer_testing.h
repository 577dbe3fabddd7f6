// Declares shared helpers of the tests of layers' operators on CUDA.
#pragma once

#include "cuda_on_cpu/operator_testing.h"

namespace plimsoll::ops::testing {

/// Runs the operator on the CPU and by its CUDA kernel. Expects the same results and the same changes of arguments,
/// within `tolerance` of the largest value, and the same sizes, strides and types. With `scratch` it also expects that
/// the operator allocates the scratch that cuda_workspace_bytes() returns. Set `scratch` for operands whose
/// matmuls allocate none on the CPU.
inline void expect_as_on_cpu(const std::string& name, const Arguments& arguments, double tolerance, bool scratch = true,
                             double least_scale = 1e-3) {
  const Arguments here = copied(arguments), there = copied(arguments);
  const Arguments want = call(name, here), got = call_on_cuda(name, there);
  const auto expect_alike = [&](const Arguments& results, const Arguments& expected, const char* what) {
    ASSERT_EQ(results.size(), expected.size());
    for (size_t i = 0; i < results.size(); ++i) {
      if (!results[i].isTensor()) continue;
      const at::Tensor a = results[i].toTensor(), b = expected[i].toTensor();
      EXPECT_EQ(a.scalar_type(), b.scalar_type());
      EXPECT_EQ(a.strides(), b.strides()) << name << what << i;
      if (b.numel() > 0) expect_close(a, b, tolerance, name + what + std::to_string(i), least_scale);
    }
  };
  expect_alike(got, want, " result ");
  expect_alike(there, here, " argument ");
#ifndef PLIMSOLL_ON_GPU  // there the executor measures
  if (!scratch) return;
  Arguments results;
  const int64_t measured = measured_workspace([&] { return call_on_cuda(name, there); }, &results, 256);
  const auto stated = cuda_workspace_bytes(recorded(name, there, results));
  ASSERT_TRUE(stated) << name;
  EXPECT_EQ(measured, *stated) << name;
#endif
}

}  // namespace plimsoll::ops::testing
