#include "ops/optimizer/gradient_norm.h"

#include <ATen/Parallel.h>
#include <torch/csrc/autograd/autograd_not_implemented_fallback.h>
#include <torch/library.h>

#include <vector>

#include "ops/op_support.h"
#include "ops/optimizer/gradient_norm_check.h"

namespace plimsoll::ops {
namespace {

using at::Tensor;

// Elements summed by one thread without a break: whatever the thread count, so the sum does not depend on it.
constexpr int64_t kBlock = 1 << 16;

}  // namespace

void check_gradient_norm(Tensor& norms, Tensor& skipped, const Tensor& gradient, int64_t index) {
  constexpr const char* op = "plimsoll::gradient_norm_";
  require_floating(op, "gradient", gradient);
  require(norms.scalar_type() == at::kFloat && norms.dim() == 1, op, "norms must be float32 of one dimension");
  require(skipped.scalar_type() == at::kFloat && skipped.dim() == 0, op, "skipped must be float32 of no dimensions");
  require(index >= 0 && index < norms.size(0), op, "index is ", index, "; norms has ", norms.size(0));
}

namespace {

void gradient_norm_cpu(Tensor& norms, Tensor& skipped, const Tensor& gradient, int64_t index) {
  check_gradient_norm(norms, skipped, gradient, index);
  // In whatever order the elements lie.
  const Tensor dense = gradient.is_non_overlapping_and_dense() ? gradient : contiguous_copy(gradient);
  const int64_t count = dense.numel(), blocks = div_up(count, kBlock);
  const void* data = dense.const_data_ptr();
  const DType dtype = dtype_of(dense);
  std::vector<double> sums(static_cast<size_t>(blocks));
  at::parallel_for(0, blocks, 1, [&](int64_t begin, int64_t end) {
    for (int64_t block = begin; block < end; ++block)
      sums[block] = sum_of_squares(data, dtype, block * kBlock, std::min(count, (block + 1) * kBlock));
  });
  double total = 0;
  for (double sum : sums) total += sum;
  const auto norm = static_cast<float>(std::sqrt(total));
  norms.mutable_data_ptr<float>()[index] = norm;
  if (!std::isfinite(norm)) *skipped.mutable_data_ptr<float>() = 1;
}

}  // namespace

TORCH_LIBRARY_FRAGMENT(plimsoll, m) {
  m.def("gradient_norm_(Tensor(a!) norms, Tensor(b!) skipped, Tensor gradient, int index) -> ()");
}
TORCH_LIBRARY_IMPL(plimsoll, Meta, m) {
  m.impl("gradient_norm_", check_gradient_norm);
}
TORCH_LIBRARY_IMPL(plimsoll, CPU, m) {
  m.impl("gradient_norm_", gradient_norm_cpu);
}
TORCH_LIBRARY_IMPL(plimsoll, Autograd, m) {
  m.impl("gradient_norm_", torch::autograd::autogradNotImplementedFallback());
}

void gradient_norm_(const Tensor& norms, const Tensor& skipped, const Tensor& gradient, int64_t index) {
  static const auto handle =
      operator_handle<void(Tensor&, Tensor&, const Tensor&, int64_t)>("plimsoll::gradient_norm_");
  Tensor norms_out = norms, skipped_out = skipped;
  handle.call(norms_out, skipped_out, gradient, index);
}

}  // namespace plimsoll::ops
