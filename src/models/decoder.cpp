#include "models/decoder.h"

#include <ATen/ATen.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <torch/nn/init.h>
#include <torch/types.h>

#include <algorithm>
#include <cmath>

#include "models/layers.h"
#include "ops/attention/attention.h"
#include "ops/layers/packed_attention.h"
#include "ops/layers/rope.h"
#include "ops/layers/swiglu.h"
#include "ops/loss/linear_cross_entropy.h"
#include "plimsoll/error.h"
#include "plimsoll/models.h"
#include "plimsoll/training.h"

namespace plimsoll::model {
namespace {

// Projections into the residual stream start smaller the deeper the model is (GPT-2, section 2.3).
double residual_deviation(const DecoderConfig& config) {
  return kInitialDeviation / std::sqrt(2.0 * static_cast<double>(config.num_layers));
}

bool is_gated(const DecoderConfig& config) {
  return config.activation == "swiglu" || config.activation == "geglu";
}

ops::AttentionOptions attention_of(const DecoderConfig& config) {
  ops::AttentionOptions options;
  options.window = config.sliding_window;
  options.softcap = config.attention_softcap;
  if (config.query_scale > 0) options.scale = 1 / std::sqrt(config.query_scale);
  return options;
}

ops::RopeFrequencies frequencies_of(const DecoderConfig& config) {
  const RopeScaling& scaling = config.rope_scaling;
  return {config.rope_theta, scaling.factor, scaling.low_frequency_factor, scaling.high_frequency_factor,
          static_cast<double>(scaling.original_length)};
}

// Layer `index`: only some layers have a sliding window.
DecoderConfig of_layer(DecoderConfig config, int64_t index) {
  if (index % config.sliding_window_every != 0) config.sliding_window = 0;
  return config;
}

}  // namespace

DecoderConfig resolved(DecoderConfig config) {
  if (config.vocab_size < 1) throw UserError("model.vocab_size must be at least 1");
  for (const auto& [name, number] : {std::pair{"hidden_size", config.hidden_size},
                                     {"num_layers", config.num_layers},
                                     {"num_heads", config.num_heads}})
    if (number < 1) throw UserError(fmt::format("model.{} is {}; it must be at least 1", name, number));
  const auto one_of = [](const char* key, const std::string& value, const std::vector<std::string>& allowed) {
    if (std::ranges::find(allowed, value) == allowed.end())
      throw UserError(fmt::format("model.{} is '{}'; allowed are {}", key, value, fmt::join(allowed, ", ")));
  };
  one_of("norm", config.norm, {"rmsnorm", "layernorm"});
  one_of("positions", config.positions, {"rope", "learned"});
  one_of("activation", config.activation, {"swiglu", "geglu", "gelu", "gelu_tanh"});
  if (config.sliding_window_every < 1)
    throw UserError(
        fmt::format("model.sliding_window_every is {}; it must be at least 1", config.sliding_window_every));
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
    config.intermediate_size = is_gated(config) ? (8 * config.hidden_size / 3 + 63) / 64 * 64 : 4 * config.hidden_size;
  return config;
}

AttentionImpl::AttentionImpl(const DecoderConfig& config) : config_(config) {
  const int64_t queries = config.num_heads * config.head_dim, keys = config.num_kv_heads * config.head_dim;
  qkv_ = register_module("qkv", Linear(config.hidden_size, queries + 2 * keys, config.attention_bias || config.qkv_bias,
                                       kInitialDeviation));
  out_ = register_module("out", Linear(queries, config.hidden_size, config.attention_bias, residual_deviation(config)));
  if (!config.qk_norm) return;
  q_norm_ = register_module("q_norm", Norm("rmsnorm", config.head_dim, config.norm_eps));
  k_norm_ = register_module("k_norm", Norm("rmsnorm", config.head_dim, config.norm_eps));
}

at::Tensor AttentionImpl::forward(const at::Tensor& x) {
  const int64_t batch = x.size(0), time = x.size(1), dim = config_.head_dim;
  const int64_t heads = config_.num_heads, kv_heads = config_.num_kv_heads;
  const at::Tensor qkv = qkv_(x);
  std::optional<ops::RopeFrequencies> frequencies;
  if (config_.positions == "rope") frequencies = frequencies_of(config_);
  if (!config_.qk_norm)
    return out_(ops::packed_attention(qkv, {heads, kv_heads, dim}, attention_of(config_), frequencies));
  const auto parts = qkv.split_with_sizes({heads * dim, kv_heads * dim, kv_heads * dim}, -1);
  at::Tensor q = q_norm_(parts[0].view({batch, time, heads, dim}));
  at::Tensor k = k_norm_(parts[1].view({batch, time, kv_heads, dim}));
  const at::Tensor v = parts[2].view({batch, time, kv_heads, dim});
  if (frequencies) {
    q = ops::rope(q, 0, *frequencies);
    k = ops::rope(k, 0, *frequencies);
  }
  const at::Tensor mixed =
      ops::attention(q.transpose(1, 2), k.transpose(1, 2), v.transpose(1, 2), attention_of(config_));
  return out_(mixed.transpose(1, 2).reshape({batch, time, heads * dim}));
}

MlpImpl::MlpImpl(const DecoderConfig& config) : activation_(config.activation) {
  const int64_t inner = config.intermediate_size, outputs = is_gated(config) ? 2 * inner : inner;
  up_ = register_module("up", Linear(config.hidden_size, outputs, config.mlp_bias, kInitialDeviation));
  down_ = register_module("down", Linear(inner, config.hidden_size, config.mlp_bias, residual_deviation(config)));
}

at::Tensor MlpImpl::forward(const at::Tensor& x) {
  const at::Tensor inner = up_(x);
  if (activation_ == "swiglu") return down_(ops::swiglu(inner));
  if (activation_ == "geglu") return down_(ops::geglu(inner));
  return down_(at::gelu(inner, activation_ == "gelu" ? "none" : "tanh"));
}

BlockImpl::BlockImpl(const DecoderConfig& config) : dropout_(config.dropout) {
  attention_norm_ = register_module("attention_norm", Norm(config.norm, config.hidden_size, config.norm_eps));
  attention_ = register_module("attention", Attention(config));
  mlp_norm_ = register_module("mlp_norm", Norm(config.norm, config.hidden_size, config.norm_eps));
  mlp_ = register_module("mlp", Mlp(config));
  if (!config.post_norms) return;
  attention_post_norm_ = register_module("attention_post_norm", Norm(config.norm, config.hidden_size, config.norm_eps));
  mlp_post_norm_ = register_module("mlp_post_norm", Norm(config.norm, config.hidden_size, config.norm_eps));
}

at::Tensor BlockImpl::forward(const at::Tensor& x) {
  const auto added = [&](const at::Tensor& part, const Norm& post_norm) {
    return dropped(post_norm ? post_norm->forward(part) : part, dropout_, is_training());
  };
  const at::Tensor mixed = x + added(attention_(attention_norm_(x)), attention_post_norm_);
  return mixed + added(mlp_(mlp_norm_(mixed)), mlp_post_norm_);
}

DecoderImpl::DecoderImpl(const DecoderConfig& config, int64_t sequence_length) : config_(resolved(config)) {
  embedding_ = register_parameter("embedding", torch::empty({config_.vocab_size, config_.hidden_size}));
  torch::nn::init::normal_(embedding_, 0.0, kInitialDeviation);
  if (config_.positions == "learned") {
    const int64_t rows = config_.max_positions > 0 ? config_.max_positions : sequence_length;
    if (rows < sequence_length)
      throw UserError(fmt::format("model.max_positions is {}; windows have {} tokens", rows, sequence_length));
    positions_ = register_parameter("positions", torch::empty({rows, config_.hidden_size}));
    torch::nn::init::normal_(positions_, 0.0, kInitialDeviation);
  }
  layers_ = register_module("layers", torch::nn::ModuleList());
  for (int64_t i = 0; i < config_.num_layers; ++i) layers_->push_back(Block(of_layer(config_, i)));
  norm_ = register_module("norm", Norm(config_.norm, config_.hidden_size, config_.norm_eps));
  if (!config_.tie_embeddings) {
    head_ = register_parameter("head", torch::empty({config_.vocab_size, config_.hidden_size}));
    torch::nn::init::normal_(head_, 0.0, kInitialDeviation);
  }
}

at::Tensor DecoderImpl::embed(const at::Tensor& tokens) {
  const at::Tensor embedded = at::embedding(embedding_, tokens);
  return config_.embedding_scale ? embedded * std::sqrt(static_cast<double>(config_.hidden_size)) : embedded;
}

at::Tensor DecoderImpl::hidden(const at::Tensor& embedded) {
  at::Tensor x = embedded;
  if (positions_.defined()) x = x + positions_.narrow(0, 0, x.size(1));
  x = dropped(x, config_.dropout, is_training());
  for (const auto& layer : *layers_) x = layer->as<BlockImpl>()->forward(x);
  return norm_(x);
}

at::Tensor DecoderImpl::loss_of(const at::Tensor& hidden, const at::Tensor& targets) {
  return ops::linear_cross_entropy(hidden, head(), targets, -100, config_.logit_softcap);
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
