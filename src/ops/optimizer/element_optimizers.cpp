#include <ATen/ATen.h>
#include <torch/library.h>

#include "ops/op_support.h"
#include "ops/optimizer/element_arithmetic.h"
#include "ops/optimizer/element_update.h"
#include "ops/optimizer/ops.h"
#include "ops/optimizer/update_group.h"
#include "ops/optimizer/update_op.h"

namespace plimsoll::ops {
namespace {

template <typename Number>
void adamw_chunks(const StepNumbers& of, const std::vector<double>& numbers, std::span<const ElementUpdate> all) {
  const auto step = adamw_step<Number>(of, numbers.data());
  for_each_chunk<Number>(all, [&](Number* p, const Number* g, Number* mean, Number* square, int64_t, int64_t count) {
    adamw_update(p, g, mean, square, count, step);
  });
}

void adamw_elements(const StepNumbers& of, const std::vector<double>& numbers, std::span<const ElementUpdate> all) {
  if (all.front().is_wide())
    adamw_chunks<double>(of, numbers, all);
  else
    adamw_chunks<float>(of, numbers, all);
}

}  // namespace

const UpdateOp kAdamW{"plimsoll::adamw_",
                      {{"exp_avg", false}, {"exp_avg_sq", true}},
                      {"beta1", "beta2", "weight_decay", "eps"},
                      adamw_elements};
PLIMSOLL_UPDATE_OP("adamw_", kAdamW)
PLIMSOLL_UPDATE_GROUP("adamw_group_", kAdamW)

void adamw_(const UpdatedTensors& tensors, const Packed& exp_avg, const Packed& exp_avg_sq, const at::Tensor& step,
            const StepScalars& scalars, double beta1, double beta2, double weight_decay, double eps) {
  call_update(kAdamW, tensors, {exp_avg, exp_avg_sq}, step, scalars, {beta1, beta2, weight_decay, eps});
}

namespace {

template <typename Number>
void lion_chunks(const StepNumbers& of, const std::vector<double>& numbers, std::span<const ElementUpdate> all) {
  const auto step = lion_step<Number>(of, numbers.data());
  for_each_chunk<Number>(all, [&](Number* p, const Number* g, Number* mean, Number*, int64_t, int64_t count) {
    lion_update(p, g, mean, count, step);
  });
}

void lion_elements(const StepNumbers& of, const std::vector<double>& numbers, std::span<const ElementUpdate> all) {
  if (all.front().is_wide())
    lion_chunks<double>(of, numbers, all);
  else
    lion_chunks<float>(of, numbers, all);
}

}  // namespace

const UpdateOp kLion{"plimsoll::lion_", {{"exp_avg", false}}, {"beta1", "beta2", "weight_decay"}, lion_elements};
PLIMSOLL_UPDATE_OP("lion_", kLion)
PLIMSOLL_UPDATE_GROUP("lion_group_", kLion)

void lion_(const UpdatedTensors& tensors, const Packed& exp_avg, const at::Tensor& step, const StepScalars& scalars,
           double beta1, double beta2, double weight_decay) {
  call_update(kLion, tensors, {exp_avg}, step, scalars, {beta1, beta2, weight_decay});
}

namespace {

template <typename Number>
void sgd_chunks(const StepNumbers& of, const std::vector<double>& numbers, std::span<const ElementUpdate> all) {
  const auto step = sgd_step<Number>(of, numbers.size() > 1 ? numbers[0] : 0, numbers.back());
  for_each_chunk<Number>(all, [&](Number* p, const Number* g, Number* momentum, Number*, int64_t, int64_t count) {
    sgd_update(p, g, momentum, count, step);
  });
}

void sgd_elements(const StepNumbers& of, const std::vector<double>& numbers, std::span<const ElementUpdate> all) {
  if (all.front().is_wide())
    sgd_chunks<double>(of, numbers, all);
  else
    sgd_chunks<float>(of, numbers, all);
}

}  // namespace

const UpdateOp kSgd{"plimsoll::sgd_", {}, {"weight_decay"}, sgd_elements};
const UpdateOp kMomentumSgd{
    "plimsoll::momentum_sgd_", {{"momentum", false}}, {"decay_of_momentum", "weight_decay"}, sgd_elements};
PLIMSOLL_UPDATE_OP("sgd_", kSgd)
PLIMSOLL_UPDATE_GROUP("sgd_group_", kSgd)
PLIMSOLL_UPDATE_OP("momentum_sgd_", kMomentumSgd)
PLIMSOLL_UPDATE_GROUP("momentum_sgd_group_", kMomentumSgd)

void sgd_(const UpdatedTensors& tensors, const Packed& momentum_buffer, const at::Tensor& step,
          const StepScalars& scalars, double momentum, double weight_decay) {
  if (momentum_buffer.values.defined())
    call_update(kMomentumSgd, tensors, {momentum_buffer}, step, scalars, {momentum, weight_decay});
  else
    call_update(kSgd, tensors, {}, step, scalars, {weight_decay});
}

namespace {

using at::Tensor;
using Optional = std::optional<Tensor>;
constexpr const char* kName = "plimsoll::nesterov_momentum_";

}  // namespace

Tensor empty_nesterov_momentum(const Tensor& gradient, const Optional& gradient_scales, const Tensor& momentum,
                               const Optional& momentum_scales, const Tensor& grad_scale, const Tensor& skipped,
                               at::ScalarType dtype) {
  require(dtype == at::kFloat || dtype == at::kBFloat16, kName, "the result is ", c10::toString(dtype),
          "; allowed are float32 and bfloat16");
  const Format of =
      gradient_scales ? format_of(kName, "the gradient", gradient, *gradient_scales, gradient) : Format::float32;
  require(of != Format::bits4, kName, "the gradient has 4 bits; accumulators have 8 or more");
  if (!gradient_scales) require_floating(kName, "the gradient", gradient);
  format_of(kName, "momentum", momentum, momentum_scales.value_or(Tensor()), gradient);
  for (const Tensor& scalar : {grad_scale, skipped})
    require(scalar.numel() == 1 && scalar.scalar_type() == at::kFloat, kName,
            "grad_scale and skipped are float32 tensors of one element");
  return at::empty(gradient.sizes(), gradient.options().dtype(dtype));
}

namespace {

#define PLIMSOLL_PARAMETERS                                                                                         \
  const Tensor &gradient, const Optional &gradient_scales, const Tensor &momentum, const Optional &momentum_scales, \
      const Tensor &step, const Tensor &grad_scale, const Tensor &skipped, double decay, at::ScalarType dtype,      \
      bool stochastic_state, int64_t seed

Tensor nesterov_momentum_cpu(PLIMSOLL_PARAMETERS) {
  Tensor result =
      empty_nesterov_momentum(gradient, gradient_scales, momentum, momentum_scales, grad_scale, skipped, dtype);
  if (scalar_of(skipped) != 0) return result.zero_();
  const Tensor from = gradient.is_contiguous() ? gradient : contiguous_copy(gradient);
  const auto values = [](const char* name, const Tensor& tensor, const Optional& scales, const Tensor& like) {
    return Values{tensor.data_ptr(), scales ? static_cast<uint8_t*>(scales->data_ptr()) : nullptr,
                  format_of(kName, name, tensor, scales.value_or(Tensor()), like), false};
  };
  const Values g = values("the gradient", from, gradient_scales, from);
  const Values m = values("momentum", momentum, momentum_scales, from), to = values("the result", result, {}, from);
  // Stream 1 is the first mean's, as in the other optimizers; 0 is the parameter's.
  const Rounding rounding{stochastic_state, draw_of_step(seed, scalar_of(step)).of(1)};
  const auto kept = static_cast<float>(decay), scale = static_cast<float>(scalar_of(grad_scale));
  const int64_t count = from.numel();
  at::parallel_for(0, div_up(count, kChunk), 32, [&](int64_t first, int64_t last) {
    alignas(64) float buffers[3][kChunk];
    for (int64_t chunk = first; chunk < last; ++chunk) {
      const int64_t begin = chunk * kChunk, n = std::min(kChunk, count - begin);
      const float* added = opened<float>(g, begin, n, nullptr, buffers[0]);
      float* mean = opened<float>(m, begin, n, nullptr, buffers[1]);
      float* out = to.format == Format::float32 ? static_cast<float*>(to.data) + begin : buffers[2];
      for (int64_t i = 0; i < n; ++i) out[i] = nesterov_element(added[i], mean[i], scale, kept);
      closed<float>(m, begin, n, rounding, nullptr, mean);
      closed<float>(to, begin, n, {}, nullptr, out);
    }
  });
  return result;
}

Tensor nesterov_momentum_meta(PLIMSOLL_PARAMETERS) {
  return empty_nesterov_momentum(gradient, gradient_scales, momentum, momentum_scales, grad_scale, skipped, dtype);
}

}  // namespace

TORCH_LIBRARY_FRAGMENT(plimsoll, m) {
  m.def(
      "nesterov_momentum_(Tensor gradient, Tensor? gradient_scales, Tensor(a!) momentum, Tensor(b!)? momentum_scales, "
      "Tensor step, Tensor grad_scale, Tensor skipped, float decay, ScalarType dtype, bool stochastic_state, int seed) "
      "-> Tensor");
}
TORCH_LIBRARY_IMPL(plimsoll, CPU, m) {
  m.impl("nesterov_momentum_", nesterov_momentum_cpu);
}
TORCH_LIBRARY_IMPL(plimsoll, Meta, m) {
  m.impl("nesterov_momentum_", nesterov_momentum_meta);
}

Tensor nesterov_momentum_(const Packed& gradient, const Packed& momentum, const Tensor& step,
                          const StepScalars& scalars, double decay, at::ScalarType dtype,
                          const UpdateRounding& rounding) {
  const auto optional = [](const Tensor& tensor) { return tensor.defined() ? Optional(tensor) : std::nullopt; };
  static const auto handle = operator_handle<Tensor(PLIMSOLL_PARAMETERS)>(kName);
  return handle.call(gradient.values, optional(gradient.scales), momentum.values, optional(momentum.scales), step,
                     scalars.grad_scale, scalars.skipped, decay, dtype, rounding.stochastic_state, rounding.seed);
}

#undef PLIMSOLL_PARAMETERS

}  // namespace plimsoll::ops
