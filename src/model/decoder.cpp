#include "model/decoder.h"

#include <ATen/ATen.h>
#include <fmt/format.h>
#include <torch/nn/init.h>
#include <torch/types.h>

#include "model/blocks.h"
#include "ops/attention.h"
#include "ops/linear_cross_entropy.h"
#include "ops/rope.h"
#include "ops/swiglu.h"
#include "plimsoll/error.h"
#include "plimsoll/models.h"

namespace plimsoll::model {
namespace {

constexpr double kInitialDeviation = 0.02;  // GPT-2

// Projections into the residual stream start smaller the deeper the model is (GPT-2, section 2.3).
double residual_deviation(const DecoderConfig& config) {
  return kInitialDeviation / std::sqrt(2.0 * static_cast<double>(config.num_layers));
}

}  // namespace

DecoderConfig resolved(DecoderConfig config) {
  if (config.vocab_size < 1) throw UserError("model.vocab_size must be at least 1");
  for (const auto& [name, number] : {std::pair{"hidden_size", config.hidden_size},
                                     {"num_layers", config.num_layers},
                                     {"num_heads", config.num_heads}})
    if (number < 1) throw UserError(fmt::format("model.{} is {}; it must be at least 1", name, number));
  const auto one_of = [](const char* key, const std::string& value, const char* a, const char* b) {
    if (value != a && value != b)
      throw UserError(fmt::format("model.{} is '{}'; allowed are {} and {}", key, value, a, b));
  };
  one_of("norm", config.norm, "rmsnorm", "layernorm");
  one_of("positions", config.positions, "rope", "learned");
  one_of("activation", config.activation, "swiglu", "gelu");
  if (config.num_kv_heads == 0) config.num_kv_heads = config.num_heads;
  if (config.num_heads % config.num_kv_heads != 0)
    throw UserError(
        fmt::format("model.num_kv_heads is {}; it must divide num_heads {}", config.num_kv_heads, config.num_heads));
  if (config.head_dim == 0) {
    if (config.hidden_size % config.num_heads != 0)
      throw UserError(
          fmt::format("model.num_heads is {}; it must divide hidden_size {}", config.num_heads, config.hidden_size));
    config.head_dim = config.hidden_size / config.num_heads;
  }
  if (config.positions == "rope" && config.head_dim % 2 != 0)
    throw UserError(fmt::format("model.head_dim is {}; it must be even where positions are rope", config.head_dim));
  if (config.intermediate_size == 0)
    config.intermediate_size =
        config.activation == "gelu" ? 4 * config.hidden_size : (8 * config.hidden_size / 3 + 63) / 64 * 64;
  return config;
}

AttentionImpl::AttentionImpl(const DecoderConfig& config) : config_(config) {
  const int64_t queries = config.num_heads * config.head_dim, keys = config.num_kv_heads * config.head_dim;
  qkv_ =
      register_module("qkv", Linear(config.hidden_size, queries + 2 * keys, config.attention_bias, kInitialDeviation));
  out_ = register_module("out", Linear(queries, config.hidden_size, config.attention_bias, residual_deviation(config)));
}

at::Tensor AttentionImpl::forward(const at::Tensor& x) {
  const int64_t batch = x.size(0), time = x.size(1), dim = config_.head_dim;
  const int64_t heads = config_.num_heads, kv_heads = config_.num_kv_heads;
  const auto parts = qkv_(x).split_with_sizes({heads * dim, kv_heads * dim, kv_heads * dim}, -1);
  at::Tensor q = parts[0].view({batch, time, heads, dim});
  at::Tensor k = parts[1].view({batch, time, kv_heads, dim});
  const at::Tensor v = parts[2].view({batch, time, kv_heads, dim});
  if (config_.positions == "rope") {
    q = ops::rope(q, 0, config_.rope_theta);
    k = ops::rope(k, 0, config_.rope_theta);
  }
  const at::Tensor mixed =
      ops::attention(q.transpose(1, 2), k.transpose(1, 2), v.transpose(1, 2), /*causal=*/true, config_.sliding_window);
  return out_(mixed.transpose(1, 2).reshape({batch, time, heads * dim}));
}

MlpImpl::MlpImpl(const DecoderConfig& config) : gated_(config.activation == "swiglu") {
  const int64_t inner = config.intermediate_size;
  up_ =
      register_module("up", Linear(config.hidden_size, gated_ ? 2 * inner : inner, config.mlp_bias, kInitialDeviation));
  down_ = register_module("down", Linear(inner, config.hidden_size, config.mlp_bias, residual_deviation(config)));
}

at::Tensor MlpImpl::forward(const at::Tensor& x) {
  const at::Tensor inner = up_(x);
  return down_(gated_ ? ops::swiglu(inner) : at::gelu(inner));
}

BlockImpl::BlockImpl(const DecoderConfig& config) : dropout_(config.dropout) {
  attention_norm_ = register_module("attention_norm", Norm(config.norm, config.hidden_size, config.norm_eps));
  attention_ = register_module("attention", Attention(config));
  mlp_norm_ = register_module("mlp_norm", Norm(config.norm, config.hidden_size, config.norm_eps));
  mlp_ = register_module("mlp", Mlp(config));
}

at::Tensor BlockImpl::forward(const at::Tensor& x) {
  const at::Tensor mixed = x + dropped(attention_(attention_norm_(x)), dropout_, is_training());
  return mixed + dropped(mlp_(mlp_norm_(mixed)), dropout_, is_training());
}

DecoderImpl::DecoderImpl(const DecoderConfig& config, int64_t sequence_length) : config_(resolved(config)) {
  embedding_ = register_parameter("embedding", torch::empty({config_.vocab_size, config_.hidden_size}));
  torch::nn::init::normal_(embedding_, 0.0, kInitialDeviation);
  if (config_.positions == "learned") {
    positions_ = register_parameter("positions", torch::empty({sequence_length, config_.hidden_size}));
    torch::nn::init::normal_(positions_, 0.0, kInitialDeviation);
  }
  layers_ = register_module("layers", torch::nn::ModuleList());
  for (int64_t i = 0; i < config_.num_layers; ++i) layers_->push_back(Block(config_));
  norm_ = register_module("norm", Norm(config_.norm, config_.hidden_size, config_.norm_eps));
  if (!config_.tie_embeddings) {
    head_ = register_parameter("head", torch::empty({config_.vocab_size, config_.hidden_size}));
    torch::nn::init::normal_(head_, 0.0, kInitialDeviation);
  }
}

at::Tensor DecoderImpl::embed(const at::Tensor& tokens) {
  return at::embedding(embedding_, tokens);
}

at::Tensor DecoderImpl::hidden(const at::Tensor& embedded) {
  at::Tensor x = embedded;
  if (positions_.defined()) x = x + positions_.narrow(0, 0, x.size(1));
  x = dropped(x, config_.dropout, is_training());
  for (const auto& layer : *layers_) x = layer->as<BlockImpl>()->forward(x);
  return norm_(x);
}

at::Tensor DecoderImpl::loss_of(const at::Tensor& hidden, const at::Tensor& targets) {
  return ops::linear_cross_entropy(hidden, head(), targets);
}

at::Tensor DecoderImpl::loss(const at::Tensor& tokens, const at::Tensor& targets) {
  return loss_of(hidden(embed(tokens)), targets);
}

}  // namespace plimsoll::model

namespace plimsoll {

Step decoder_step(const DecoderConfig& config, int64_t micro_batch_size, int64_t sequence_length) {
  const DecoderConfig checked = model::resolved(config);
  Step step;
  step.model = [checked, sequence_length] { return std::make_shared<model::DecoderImpl>(checked, sequence_length); };
  step.inputs = {{"tokens", {micro_batch_size, sequence_length}, c10::kLong, checked.vocab_size},
                 {"targets", {micro_batch_size, sequence_length}, c10::kLong, checked.vocab_size}};
  step.loss = [](torch::nn::Module& module, const StepInputs& inputs) {
    return static_cast<model::DecoderImpl&>(module).loss(inputs["tokens"], inputs["targets"]);
  };
  return step;
}

}  // namespace plimsoll
