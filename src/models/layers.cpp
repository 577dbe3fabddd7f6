#include "models/layers.h"

#include <ATen/ATen.h>
#include <torch/types.h>

#include "ops/layers/packed_attention.h"
#include "ops/layers/rms_norm.h"

namespace plimsoll::model {

NormImpl::NormImpl(const std::string& kind, int64_t size, double eps) : eps_(eps) {
  weight_ = register_parameter("weight", torch::ones({size}));
  if (kind == "layernorm") bias_ = register_parameter("bias", torch::zeros({size}));
}

at::Tensor NormImpl::forward(const at::Tensor& x) const {
  if (bias_.defined()) return at::layer_norm(x, {x.size(-1)}, weight_, bias_, eps_);
  return ops::rms_norm(x, weight_, eps_);
}

at::Tensor dropped(const at::Tensor& x, double p, bool training) {
  return training && p > 0 ? std::get<0>(at::native_dropout(x, p, true)) : x;
}

at::Tensor activated(const at::Tensor& x, const std::string& activation) {
  if (activation == "quick_gelu") return x * at::sigmoid(x * 1.702);
  return at::gelu(x, activation == "gelu" ? "none" : "tanh");
}

ResidualBlockImpl::ResidualBlockImpl(const BlockOptions& options)
    : dropout_(options.dropout), activation_(options.activation) {
  const int64_t width = options.width, inner = options.inner > 0 ? options.inner : 4 * width;
  norm_ = register_module("norm", Norm(options.norm, width, options.norm_eps));
  up_ = register_module("up", Linear(width, inner, options.bias, kInitialDeviation));
  down_ = register_module("down", Linear(inner, width, options.bias, options.residual_deviation));
}

at::Tensor ResidualBlockImpl::forward(const at::Tensor& x) {
  return x + dropped(down_(activated(up_(norm_(x)), activation_)), dropout_, is_training());
}

EncoderBlockImpl::EncoderBlockImpl(const BlockOptions& options) : heads_(options.num_heads), dropout_(options.dropout) {
  const int64_t width = options.width;
  norm_ = register_module("norm", Norm(options.norm, width, options.norm_eps));
  qkv_ = register_module("qkv", Linear(width, 3 * width, options.bias, kInitialDeviation));
  out_ = register_module("out", Linear(width, width, options.bias, options.residual_deviation));
  mlp_ = register_module("mlp", ResidualBlock(options));
}

at::Tensor EncoderBlockImpl::forward(const at::Tensor& x) {
  const ops::PackedHeads heads{heads_, heads_, x.size(2) / heads_};
  const at::Tensor told = out_(ops::packed_attention(qkv_(norm_(x)), heads, {.causal = false}));
  return mlp_(x + dropped(told, dropout_, is_training()));
}

}  // namespace plimsoll::model
