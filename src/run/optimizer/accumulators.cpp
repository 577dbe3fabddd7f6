#include "run/optimizer/accumulators.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <fmt/format.h>
#include <torch/csrc/autograd/function_hook.h>
#include <torch/csrc/autograd/variable.h>

#include <memory>
#include <utility>

#include "collectives/exchange_support.h"
#include "ops/formats.h"
#include "ops/optimizer/ops.h"
#include "ops/rows.h"
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

namespace {

class Hook : public torch::autograd::PostAccumulateGradHook {
 public:
  Hook(const GradientHooks::Complete& complete, size_t index) : complete_(complete), index_(index) {}
  void operator()(const torch::autograd::Variable& parameter) override { complete_(index_, parameter); }

 private:
  const GradientHooks::Complete& complete_;
  size_t index_;
};

}  // namespace

GradientHooks::GradientHooks(std::vector<at::Tensor> parameters, Complete complete)
    : parameters_(std::move(parameters)), complete_(std::move(complete)) {
  for (size_t i = 0; i < parameters_.size(); ++i)
    torch::autograd::impl::set_post_acc_grad_hooks(parameters_[i], std::make_unique<Hook>(complete_, i));
}

GradientHooks::~GradientHooks() {
  for (const at::Tensor& parameter : parameters_) torch::autograd::impl::set_post_acc_grad_hooks(parameter, nullptr);
}

namespace {

// Returns the elements in the order of memory.
at::Tensor flat(const at::Tensor& dense) {
  return dense.as_strided({dense.numel()}, {1}, dense.storage_offset());
}

}  // namespace

ExchangedGradients::ExchangedGradients(const std::vector<OptimizedParameter>& parameters, AccumulatorDtype dtype)
    : parameters_(parameters),
      dtype_(dtype),
      sums_(parameters.size()),
      hooks_(model_tensors(parameters), [this](size_t index, const at::Tensor& parameter) { add(index, parameter); }) {
  if (dtype != AccumulatorDtype::as_gradients && dtype != AccumulatorDtype::float32)
    throw UserError(
        fmt::format("gradient_accumulation_dtype is {}, whose sums are rounded at random; with several devices "
                    "allowed are gradients and float32",
                    name_of(dtype)));
}

// Called by the autograd engine when a parameter's gradient of this micro batch is complete.
void ExchangedGradients::add(size_t index, const at::Tensor& parameter) {
  const at::NoGradGuard no_grad;
  at::Tensor& held = parameter.mutable_grad();
  at::Tensor gradient = held;
  held = at::Tensor();
  const at::Tensor detached = parameter.detach();
  if (!gradient.is_non_overlapping_and_dense() ||
      !ops::same_order(gradient.sizes(), gradient.strides(), detached.strides()))
    gradient = at::empty_like(detached, gradient.options()).copy_(gradient);
  const OptimizedParameter& of = parameters_[index];
  at::Tensor& sum = sums_[index];
  check(sum.defined() || first_, "a gradient that the first micro batch did not have");
  if (!sum.defined())
    sum = at::empty_like(
        of.value.detach(),
        gradient.options().dtype(dtype_ == AccumulatorDtype::float32 ? at::kFloat : gradient.scalar_type()));
  if (of.slice)
    reduce_scatter_(flat(sum), flat(gradient), first_);
  else
    all_reduce_(flat(sum), flat(gradient), first_);
}

}  // namespace plimsoll
