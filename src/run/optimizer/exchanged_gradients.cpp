#include "run/optimizer/exchanged_gradients.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <fmt/format.h>

#include "collectives/exchange_ops.h"
#include "ops/rows.h"
#include "plimsoll/error.h"

namespace plimsoll {
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
