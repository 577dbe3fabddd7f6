// Declares shared helpers of the operator tests: comparing, calling operators by name, counting the CPU allocator's
// bytes.
#pragma once

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <vector>

#include "plimsoll/trace.h"

namespace plimsoll::ops::testing {

constexpr at::ScalarType kTypes[] = {at::kFloat, at::kBFloat16, at::kHalf, at::kDouble};

/// Epsilon of the norms.
constexpr double kNormEps = 1e-5;

/// Largest relative error of one rounding, or of a short float32 sum.
inline double tolerance(at::ScalarType type) {
  switch (type) {
    case at::kDouble:
      return 1e-10;
    case at::kFloat:
      return 2e-5;
    case at::kHalf:
      return 4e-3;
    default:
      return 3e-2;
  }
}

/// Expects `|got - want| <= tolerance * max(largest of want, least_scale)` for all elements, and no NaN.
inline void expect_close(const at::Tensor& got, const at::Tensor& want, double tolerance, const std::string& what,
                         double least_scale = 1e-6) {
  ASSERT_TRUE(got.defined()) << what;
  ASSERT_EQ(got.sizes(), want.sizes()) << what;
  const at::Tensor a = got.detach().to(at::kDouble), b = want.detach().to(at::kDouble);
  const double scale = std::max(least_scale, b.abs().max().item<double>());
  const double error = (a - b).abs().max().item<double>();
  EXPECT_LE(error, tolerance * scale) << what << ": largest difference " << error << ", largest value " << scale;
}

/// Arguments and results of one call of an operator, boxed.
std::vector<c10::IValue> call(const std::string& name, std::vector<c10::IValue> arguments);

/// Runs the operator on the CPU and its Meta kernel, and expects the same sizes, strides and dtypes.
void expect_meta_agrees(const std::string& name, const std::vector<c10::IValue>& arguments);

/// Returns the call as the recorder would record it, without buffers.
Op recorded(const std::string& name, const std::vector<c10::IValue>& arguments,
            const std::vector<c10::IValue>& results);

/// Runs the call under a counting CPU allocator. Returns the peak bytes held in addition to results, each allocation
/// rounded up to 64. `results`, if given, receives the results.
int64_t measured_workspace(const std::string& name, const std::vector<c10::IValue>& arguments,
                           std::vector<c10::IValue>* results = nullptr);
/// Measures any call that returns its results in the same way; allocations are rounded up to `unit`, a multiple of 64.
int64_t measured_workspace(const std::function<std::vector<c10::IValue>()>& run, std::vector<c10::IValue>* results,
                           int64_t unit = 64);

/// Expects that cpu_workspace_bytes() is the allocator's count, on 1 and 2 threads. The count may be up to `slack`
/// bytes a thread less.
void expect_workspace(const std::string& name, const std::vector<c10::IValue>& arguments, int64_t slack = 0);

/// Sets `count` threads for its lifetime.
struct Threads {
  explicit Threads(int count) : before(at::get_num_threads()) { at::set_num_threads(count); }
  ~Threads() { at::set_num_threads(before); }
  int before;
};

/// Turns on CPU autocast to a type for its lifetime.
struct Autocast {
  explicit Autocast(at::ScalarType type);
  ~Autocast();
};

}  // namespace plimsoll::ops::testing
