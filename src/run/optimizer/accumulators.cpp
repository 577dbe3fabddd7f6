#include "run/optimizer/accumulators.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include "ops/arithmetic/formats.h"
#include "ops/optimizer/ops.h"
#include "plimsoll/error.h"

namespace plimsoll {

Accumulators::Accumulators(const std::vector<OptimizedParameter>& parameters, AccumulatorDtype dtype)
    : dtype_(dtype),
      sums_(parameters.size()),
      hooks_(model_tensors(parameters), [this](size_t index, const at::Tensor& parameter) { add(index, parameter); }) {}

// Called by the autograd engine when a parameter's gradient of this micro batch is complete.
void Accumulators::add(size_t index, const at::Tensor& parameter) {
  const at::NoGradGuard no_grad;
  at::Tensor& gradient = parameter.mutable_grad();
  ops::Packed& sum = sums_[index];
  const bool fresh = !sum.values.defined();
  check(!fresh || first_, "a gradient that the first micro batch did not have");
  if (fresh) {
    // The order in memory is the parameter's: the update walks through both in the same way.
    const auto like = [&](at::ScalarType type) {
      return at::empty_like(parameter.detach(), parameter.options().dtype(type).requires_grad(false));
    };
    // Tensors of few elements keep float32: their blocks would not pay off.
    const bool small = gradient.numel() < optimizer::kMinShrunk;
    switch (dtype_) {
      case AccumulatorDtype::bits8:
        if (!small) {
          const int64_t scales = ops::scales_of(ops::Format::bits8, gradient.numel());
          sum.values = like(at::kByte);
          sum.scales = at::empty({scales}, sum.values.options());
          break;
        }
        [[fallthrough]];
      case AccumulatorDtype::float32:
        sum.values = like(at::kFloat);
        break;
      case AccumulatorDtype::bfloat16:
        sum.values = like(at::kBFloat16);
        break;
      default:
        throw InternalError("no accumulators of this kind");
    }
  }
  ops::accumulate_(sum, gradient, first_);
  gradient = at::Tensor();
}

}  // namespace plimsoll
