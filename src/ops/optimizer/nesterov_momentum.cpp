// The first half of Muon: momentum, and what the update is made from.
#include <ATen/ATen.h>
#include <torch/library.h>

#include "ops/op_support.h"
#include "ops/optimizer/element_update.h"
#include "ops/optimizer/ops.h"

namespace plimsoll::ops {
namespace {

using at::Tensor;
using Optional = std::optional<Tensor>;
using Generator = std::optional<at::Generator>;

constexpr const char* kName = "plimsoll::nesterov_momentum_";

Tensor checked_result(const Tensor& gradient, const Optional& gradient_scales, const Tensor& momentum,
                      const Optional& momentum_scales, const Tensor& grad_scale, const Tensor& skipped,
                      at::ScalarType dtype, bool random) {
  require(dtype == at::kFloat || dtype == at::kBFloat16, kName, "the result is ", c10::toString(dtype),
          "; allowed are float32 and bfloat16");
  const Format of =
      gradient_scales ? format_of(kName, "the gradient", gradient, *gradient_scales, gradient) : Format::float32;
  require(of != Format::bits4, kName, "the gradient has 4 bits; accumulators have 8 or more");
  if (!gradient_scales) require_floating(kName, "the gradient", gradient);
  const Format format = format_of(kName, "momentum", momentum, momentum_scales.value_or(Tensor()), gradient);
  require(random || (format != Format::bits8 && format != Format::bits4), kName,
          "momentum has fewer than 16 bits, which are rounded at random: call the overload with a generator");
  for (const Tensor& scalar : {grad_scale, skipped})
    require(scalar.numel() == 1 && scalar.scalar_type() == at::kFloat, kName,
            "grad_scale and skipped are float32 tensors of one element");
  return at::empty(gradient.sizes(), gradient.options().dtype(dtype));
}

Tensor run(const Tensor& gradient, const Optional& gradient_scales, const Tensor& momentum,
           const Optional& momentum_scales, const Tensor& grad_scale, const Tensor& skipped, double decay,
           at::ScalarType dtype, bool random, const Generator& generator) {
  Tensor result =
      checked_result(gradient, gradient_scales, momentum, momentum_scales, grad_scale, skipped, dtype, random);
  if (scalar_of(skipped) != 0) return result.zero_();
  const Tensor from = gradient.is_contiguous() ? gradient : contiguous_copy(gradient);
  const auto values = [](const char* name, const Tensor& tensor, const Optional& scales, const Tensor& like) {
    return Values{tensor.data_ptr(), scales ? static_cast<uint8_t*>(scales->data_ptr()) : nullptr,
                  format_of(kName, name, tensor, scales.value_or(Tensor()), like), false};
  };
  const Values g = values("the gradient", from, gradient_scales, from);
  const Values m = values("momentum", momentum, momentum_scales, from), to = values("the result", result, {}, from);
  const Rounding rounding{random, random ? draw_from(generator) : Draw{}};
  const auto kept = static_cast<float>(decay), scale = static_cast<float>(scalar_of(grad_scale));
  const int64_t count = from.numel();
  at::parallel_for(0, div_up(count, kChunk), 32, [&](int64_t first, int64_t last) {
    alignas(64) float buffers[3][kChunk];
    for (int64_t chunk = first; chunk < last; ++chunk) {
      const int64_t begin = chunk * kChunk, n = std::min(kChunk, count - begin);
      const float* added = opened<float>(g, begin, n, nullptr, buffers[0]);
      float* mean = opened<float>(m, begin, n, nullptr, buffers[1]);
      float* out = to.format == Format::float32 ? static_cast<float*>(to.data) + begin : buffers[2];
      for (int64_t i = 0; i < n; ++i) {
        const float gradient_now = added[i] / scale;
        mean[i] = kept * mean[i] + gradient_now;
        out[i] = gradient_now + kept * mean[i];
      }
      closed<float>(m, begin, n, rounding, nullptr, mean);
      closed<float>(to, begin, n, {}, nullptr, out);
    }
  });
  return result;
}

#define PLIMSOLL_PARAMETERS                                                                                         \
  const Tensor &gradient, const Optional &gradient_scales, const Tensor &momentum, const Optional &momentum_scales, \
      const Tensor &grad_scale, const Tensor &skipped, double decay, at::ScalarType dtype
Tensor plain_cpu(PLIMSOLL_PARAMETERS) {
  return run(gradient, gradient_scales, momentum, momentum_scales, grad_scale, skipped, decay, dtype, false, {});
}
Tensor random_cpu(PLIMSOLL_PARAMETERS, Generator generator) {
  return run(gradient, gradient_scales, momentum, momentum_scales, grad_scale, skipped, decay, dtype, true, generator);
}
Tensor plain_meta(PLIMSOLL_PARAMETERS) {
  return checked_result(gradient, gradient_scales, momentum, momentum_scales, grad_scale, skipped, dtype, false);
}
Tensor random_meta(PLIMSOLL_PARAMETERS, Generator) {
  return checked_result(gradient, gradient_scales, momentum, momentum_scales, grad_scale, skipped, dtype, true);
}

}  // namespace

TORCH_LIBRARY_FRAGMENT(plimsoll, m) {
  m.def(
      "nesterov_momentum_(Tensor gradient, Tensor? gradient_scales, Tensor(a!) momentum, Tensor(b!)? momentum_scales, "
      "Tensor grad_scale, Tensor skipped, float decay, ScalarType dtype) -> Tensor");
  m.def(
      "nesterov_momentum_.random(Tensor gradient, Tensor? gradient_scales, Tensor(a!) momentum, Tensor(b!)? "
      "momentum_scales, Tensor grad_scale, Tensor skipped, float decay, ScalarType dtype, Generator? generator=None) "
      "-> Tensor",
      {at::Tag::nondeterministic_seeded});
}
TORCH_LIBRARY_IMPL(plimsoll, CPU, m) {
  m.impl("nesterov_momentum_", plain_cpu);
  m.impl("nesterov_momentum_.random", random_cpu);
}
TORCH_LIBRARY_IMPL(plimsoll, Meta, m) {
  m.impl("nesterov_momentum_", plain_meta);
  m.impl("nesterov_momentum_.random", random_meta);
}

Tensor nesterov_momentum_(const Packed& gradient, const Packed& momentum, const StepScalars& scalars, double decay,
                          at::ScalarType dtype, bool random, const Generator& generator) {
  const auto optional = [](const Tensor& tensor) { return tensor.defined() ? Optional(tensor) : std::nullopt; };
  if (!random) {
    static const auto handle = operator_handle<Tensor(PLIMSOLL_PARAMETERS)>(kName);
    return handle.call(gradient.values, optional(gradient.scales), momentum.values, optional(momentum.scales),
                       scalars.grad_scale, scalars.skipped, decay, dtype);
  }
  static const auto handle = operator_handle<Tensor(PLIMSOLL_PARAMETERS, Generator)>(kName, "random");
  return handle.call(gradient.values, optional(gradient.scales), momentum.values, optional(momentum.scales),
                     scalars.grad_scale, scalars.skipped, decay, dtype, generator);
}

}  // namespace plimsoll::ops
