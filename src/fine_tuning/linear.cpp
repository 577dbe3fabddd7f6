#include "plimsoll/linear.h"

#include <ATen/ATen.h>
#include <ATen/autocast_mode.h>
#include <fmt/format.h>
#include <torch/nn/init.h>
#include <torch/types.h>

#include <cmath>

#include "ops/quantized/quantized_linear.h"
#include "plimsoll/error.h"

namespace plimsoll {
namespace {

/// Returns a small weight in the type of the tensor that it is multiplied with. Autocast does this itself.
at::Tensor as_type_of(const at::Tensor& weight, const at::Tensor& x) {
  return at::autocast::is_autocast_enabled(x.device().type()) ? weight : weight.to(x.scalar_type());
}

}  // namespace

LinearImpl::LinearImpl(int64_t in, int64_t out, bool bias, std::optional<double> standard_deviation)
    : in_(in), out_(out) {
  if (in < 1 || out < 1) throw UserError(fmt::format("a linear layer of {} -> {}; both must be at least 1", in, out));
  const double bound = 1 / std::sqrt(static_cast<double>(in));
  weight_ = register_parameter("weight", torch::empty({out, in}));
  if (standard_deviation)
    torch::nn::init::normal_(weight_, 0.0, *standard_deviation);
  else
    torch::nn::init::uniform_(weight_, -bound, bound);
  if (!bias) return;
  bias_ = register_parameter("bias", standard_deviation ? torch::zeros({out}) : torch::empty({out}));
  if (!standard_deviation) torch::nn::init::uniform_(bias_, -bound, bound);
}

at::Tensor LinearImpl::product(const at::Tensor& x) const {
  if (!codes_.defined()) return at::linear(x, weight_, bias_);
  at::Tensor y = ops::quantized_linear(x, {codes_, scales_, second_scales_});
  if (bias_.defined()) y.add_(bias_);
  return y;
}

at::Tensor LinearImpl::forward(const at::Tensor& x) {
  at::Tensor y = product(x);
  if (!adapted()) return y;
  const bool drops = is_training() && lora_dropout_ > 0;
  const at::Tensor in = drops ? std::get<0>(at::native_dropout(x, lora_dropout_, true)) : x;
  // The product is scaled here because it is narrowest.
  const at::Tensor low = at::linear(in, as_type_of(lora_a_, in)) * lora_scale_;
  return y.add_(at::linear(low, as_type_of(lora_b_, low)));
}

void LinearImpl::add_adapter(const LoraConfig& config, c10::ScalarType dtype) {
  if (config.rank < 1 || config.rank > std::min(in_, out_))
    throw UserError(
        fmt::format("lora.rank is {}; a layer of {} -> {} takes 1 to {}", config.rank, in_, out_, std::min(in_, out_)));
  check(!adapted(), "a linear layer has one adapter");
  const double bound = 1 / std::sqrt(static_cast<double>(in_));
  const auto options = at::TensorOptions().dtype(dtype);
  lora_a_ = register_parameter("lora_a", torch::empty({config.rank, in_}, options));
  torch::nn::init::uniform_(lora_a_, -bound, bound);
  lora_b_ = register_parameter("lora_b", torch::zeros({out_, config.rank}, options));
  lora_scale_ = config.alpha / static_cast<double>(config.rank);
  lora_dropout_ = config.dropout;
}

void LinearImpl::release_weight() {
  parameters_.erase("weight");
  weight_.reset();
}

void LinearImpl::quantize(const QuantizeConfig& config) {
  check(!quantized(), "a linear layer is quantized once");
  // The reader of a checkpoint computes the width from the codes.
  if (config.format == "nf4" && in_ % 2 != 0)
    throw UserError(
        fmt::format("quantize.format is nf4, which packs two weights into a byte; a layer of {} -> {} has "
                    "an odd width: use int8 for it, or leave it out",
                    in_, out_));
  const ops::QuantizedTensors made = ops::quantize_weight(weight_, config.format, config.double_scales);
  release_weight();
  codes_ = register_buffer("weight_codes", made.codes);
  scales_ = register_buffer("weight_scales", made.scales);
  if (made.second.defined()) second_scales_ = register_buffer("weight_second_scales", made.second);
}

void LinearImpl::set_weight_dtype(c10::ScalarType dtype) {
  check(weight_.defined() && !weight_.requires_grad(), "only a frozen weight changes its type");
  if (weight_.scalar_type() == dtype) return;
  const at::NoGradGuard no_grad;
  const at::Tensor held = weight_.to(dtype);
  release_weight();
  weight_ = register_parameter("weight", held, /*requires_grad=*/false);
}

}  // namespace plimsoll
