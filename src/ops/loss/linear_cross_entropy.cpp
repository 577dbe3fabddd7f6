#include "ops/loss/linear_cross_entropy.h"

#include <torch/csrc/autograd/custom_function.h>
#include <torch/library.h>

#include <tuple>

#include "ops/loss/loss_kernel.h"
#include "ops/op_support.h"
#include "plimsoll/error.h"

namespace plimsoll::ops {
namespace {

using at::Tensor;
using Results = std::tuple<Tensor, Tensor, Tensor, Tensor>;
using WithGradients = Results(const Tensor&, const Tensor&, const Tensor&, int64_t, bool, bool, double);
using LossOnly = Tensor(const Tensor&, const Tensor&, const Tensor&, int64_t, double);

}  // namespace

Tensor loss_result(const Tensor& x, const Tensor& weight, const Tensor& targets, int64_t ignore_index, double softcap) {
  constexpr const char* op = "plimsoll::linear_cross_entropy";
  require_floating(op, "x", x);
  require(x.dim() == 2 && weight.dim() == 2 && x.size(1) == weight.size(1), op, "x has shape ", x.sizes(),
          " and weight ", weight.sizes(), "; they must be [tokens, width] and [vocabulary, width]");
  require(x.size(0) > 0 && x.size(1) > 0 && weight.size(0) > 0, op, "x ", x.sizes(), " or weight ", weight.sizes(),
          " is empty");
  require(x.scalar_type() == weight.scalar_type(), op, "x is ", c10::toString(x.scalar_type()), " and weight ",
          c10::toString(weight.scalar_type()), "; they must be of one type");
  require(targets.dim() == 1 && targets.size(0) == x.size(0) && targets.scalar_type() == at::kLong, op, "targets are ",
          c10::toString(targets.scalar_type()), " of shape ", targets.sizes(), "; they must be int64 [", x.size(0),
          "], one a row of x");
  require(softcap >= 0, op, "softcap is ", softcap, "; it must be 0 (none) or positive");
  return at::empty({}, x.options().dtype(accumulator(x.scalar_type())));
}

/// Returns the results; gradients that are not requested are empty.
Results loss_and_gradient_results(const Tensor& x, const Tensor& weight, const Tensor& targets, int64_t ignore_index,
                                  bool wants_x, bool wants_weight, double softcap) {
  Tensor loss = loss_result(x, weight, targets, ignore_index, softcap);
  const auto gradient = [](const Tensor& of, bool wanted) {
    return wanted ? at::empty(of.sizes(), of.options()) : at::empty({0}, of.options());
  };
  Tensor count = at::empty({}, loss.options());
  return {loss, count, gradient(x, wants_x), gradient(weight, wants_weight)};
}

namespace {

Results with_gradients_cpu(const Tensor& x, const Tensor& weight, const Tensor& targets, int64_t ignore_index,
                           bool wants_x, bool wants_weight, double softcap) {
  auto results = loss_and_gradient_results(x, weight, targets, ignore_index, wants_x, wants_weight, softcap);
  const auto& [loss, count, grad_x, grad_weight] = results;
  linear_cross_entropy_cpu(x, weight, targets, ignore_index, softcap, loss, count, grad_x, grad_weight);
  return results;
}

Tensor loss_cpu(const Tensor& x, const Tensor& weight, const Tensor& targets, int64_t ignore_index, double softcap) {
  Tensor loss = loss_result(x, weight, targets, ignore_index, softcap);
  linear_cross_entropy_cpu(x, weight, targets, ignore_index, softcap, loss, Tensor(), Tensor(), Tensor());
  return loss;
}

Results call_with_gradients(const Tensor& x, const Tensor& weight, const Tensor& targets, int64_t ignore_index,
                            bool wants_x, bool wants_weight, double softcap) {
  static const auto handle = operator_handle<WithGradients>("plimsoll::linear_cross_entropy");
  return handle.call(x, weight, targets, ignore_index, wants_x, wants_weight, softcap);
}

Tensor call_loss(const Tensor& x, const Tensor& weight, const Tensor& targets, int64_t ignore_index, double softcap) {
  static const auto handle = operator_handle<LossOnly>("plimsoll::linear_cross_entropy_loss");
  return handle.call(x, weight, targets, ignore_index, softcap);
}

struct LinearCrossEntropy : torch::autograd::Function<LinearCrossEntropy> {
  static torch::autograd::variable_list forward(torch::autograd::AutogradContext* context, const Tensor& x,
                                                const Tensor& weight, const Tensor& targets, int64_t ignore_index,
                                                bool wants_x, bool wants_weight, double softcap) {
    at::AutoDispatchBelowADInplaceOrView below;
    auto [loss, count, grad_x, grad_weight] =
        call_with_gradients(x, weight, targets, ignore_index, wants_x, wants_weight, softcap);
    context->saved_data["wants_x"] = wants_x;
    context->saved_data["wants_weight"] = wants_weight;
    context->save_for_backward({count, grad_x, grad_weight});
    context->mark_non_differentiable({count, grad_x, grad_weight});
    return {loss, count, grad_x, grad_weight};
  }
  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context,
                                                 const torch::autograd::variable_list& grads) {
    torch::autograd::variable_list gradients(7);
    if (!grads[0].defined()) return gradients;
    // The gradients that forward kept are constants to autograd: what depends on them would be missing, in silence.
    if (at::GradMode::is_enabled())
      throw UserError(
          "operator plimsoll::linear_cross_entropy has no second derivative, and cannot be recorded with one: record "
          "PyTorch's own operators (in Python replace={\"cross_entropy\": False}, in C++ Step::replace)");
    const auto saved = context->get_saved_variables();
    // Forward stores the gradients of the sum, which do not underflow in float16; the mean is taken here.
    const Tensor scale = at::div(grads[0], saved[0]);
    if (context->saved_data["wants_x"].toBool()) gradients[0] = at::mul(saved[1], scale);
    if (context->saved_data["wants_weight"].toBool()) gradients[1] = at::mul(saved[2], scale);
    return gradients;
  }
};

Results autograd(const Tensor& x, const Tensor& weight, const Tensor& targets, int64_t ignore_index, bool wants_x,
                 bool wants_weight, double softcap) {
  auto results = LinearCrossEntropy::apply(x, weight, targets, ignore_index, wants_x, wants_weight, softcap);
  return {results[0], results[1], results[2], results[3]};
}

/// Computes only the loss, without a gradient: a caller that needs one calls the other operator.
Tensor loss_autograd(const Tensor& x, const Tensor& weight, const Tensor& targets, int64_t ignore_index,
                     double softcap) {
  require(!at::GradMode::is_enabled() || !(x.requires_grad() || weight.requires_grad()),
          "plimsoll::linear_cross_entropy_loss",
          "computes no gradient, but x or weight requires one; call plimsoll::linear_cross_entropy");
  at::AutoDispatchBelowADInplaceOrView below;
  return call_loss(x, weight, targets, ignore_index, softcap);
}

template <c10::DeviceType device>
Results with_gradients_autocast(const Tensor& x, const Tensor& weight, const Tensor& targets, int64_t ignore_index,
                                bool wants_x, bool wants_weight, double softcap) {
  const AutocastOff off(device);
  return call_with_gradients(autocast(x, device), autocast(weight, device), targets, ignore_index, wants_x,
                             wants_weight, softcap);
}

template <c10::DeviceType device>
Tensor loss_autocast(const Tensor& x, const Tensor& weight, const Tensor& targets, int64_t ignore_index,
                     double softcap) {
  const AutocastOff off(device);
  return call_loss(autocast(x, device), autocast(weight, device), targets, ignore_index, softcap);
}

}  // namespace

TORCH_LIBRARY_FRAGMENT(plimsoll, m) {
  m.def(
      "linear_cross_entropy(Tensor x, Tensor weight, Tensor targets, int ignore_index, bool wants_x, bool "
      "wants_weight, float softcap) -> "
      "(Tensor loss, Tensor count, Tensor grad_x, Tensor grad_weight)");
  m.def(
      "linear_cross_entropy_loss(Tensor x, Tensor weight, Tensor targets, int ignore_index, float softcap) -> Tensor");
  // The forms of a GPU for memory that remains: at most `chunk_tokens` tokens at a time, or kLargeGradientBlocks.
  m.def(
      "linear_cross_entropy.chunks(Tensor x, Tensor weight, Tensor targets, int ignore_index, bool wants_x, bool "
      "wants_weight, float softcap, int chunk_tokens) -> "
      "(Tensor loss, Tensor count, Tensor grad_x, Tensor grad_weight)");
  m.def(
      "linear_cross_entropy_loss.chunks(Tensor x, Tensor weight, Tensor targets, int ignore_index, float softcap, int "
      "chunk_tokens) -> Tensor");
}
TORCH_LIBRARY_IMPL(plimsoll, Meta, m) {
  m.impl("linear_cross_entropy", loss_and_gradient_results);
  m.impl("linear_cross_entropy_loss", loss_result);
}
TORCH_LIBRARY_IMPL(plimsoll, CPU, m) {
  m.impl("linear_cross_entropy", with_gradients_cpu);
  m.impl("linear_cross_entropy_loss", loss_cpu);
}
TORCH_LIBRARY_IMPL(plimsoll, Autograd, m) {
  m.impl("linear_cross_entropy", autograd);
  m.impl("linear_cross_entropy_loss", loss_autograd);
}
PLIMSOLL_AUTOCAST("linear_cross_entropy", with_gradients_autocast)
PLIMSOLL_AUTOCAST("linear_cross_entropy_loss", loss_autocast)

Tensor linear_cross_entropy(const Tensor& x, const Tensor& weight, const Tensor& targets, int64_t ignore_index,
                            double softcap) {
  const Tensor tokens = x.reshape({-1, x.size(-1)}), flat = targets.reshape({-1});
  const bool gradients = at::GradMode::is_enabled();
  const bool wants_x = gradients && x.requires_grad(), wants_weight = gradients && weight.requires_grad();
  if (!wants_x && !wants_weight) return call_loss(tokens, weight, flat, ignore_index, softcap);
  return std::get<0>(call_with_gradients(tokens, weight, flat, ignore_index, wants_x, wants_weight, softcap));
}

}  // namespace plimsoll::ops
