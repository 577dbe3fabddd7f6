#include "models/mamba.h"

#include <ATen/ATen.h>
#include <torch/nn/init.h>
#include <torch/types.h>

#include <cmath>
#include <vector>

#include "models/config_checks.h"
#include "models/layers.h"
#include "ops/layers/rms_norm.h"
#include "ops/loss/linear_cross_entropy.h"
#include "ops/scan/causal_conv1d.h"
#include "ops/scan/ssd_scan.h"
#include "plimsoll/error.h"
#include "plimsoll/models.h"
#include "plimsoll/training.h"

namespace plimsoll::model {
namespace {

// Initial step sizes and decays, as in the authors' code of Mamba-2.
constexpr double kMinStep = 1e-3, kMaxStep = 0.1;
constexpr double kMinDecay = 1, kMaxDecay = 16;

/// Converts to the type of exponents and of sums over time: float64 stays, others become float32.
at::Tensor wide(const at::Tensor& x) {
  return x.scalar_type() == at::kDouble ? x : x.to(at::kFloat);
}

}  // namespace

MixerConfig mixer_of(const GestureSsmConfig& config) {
  MixerConfig mixer;
  mixer.hidden = config.hidden_dim;
  mixer.width = config.expand * config.hidden_dim;
  mixer.heads = mixer.width / config.head_dim;
  mixer.state = config.d_state;
  mixer.conv_width = config.conv_width;
  mixer.chunk = config.chunk_size;
  mixer.norm_eps = config.norm_eps;
  return mixer;
}

MambaMixerImpl::MambaMixerImpl(const MixerConfig& config, double residual_deviation) : config_(config) {
  const int64_t convolved = config.width + 2 * config.groups * config.state;
  in_ = register_module(
      "in", Linear(config.hidden, config.width + convolved + config.heads, config.projection_bias, kInitialDeviation));
  const double bound = 1 / std::sqrt(static_cast<double>(config.conv_width));
  conv_weight_ = register_parameter("conv_weight", torch::empty({convolved, config.conv_width}));
  torch::nn::init::uniform_(conv_weight_, -bound, bound);
  if (config.conv_bias) conv_bias_ = register_parameter("conv_bias", torch::zeros({convolved}));
  // softplus(dt_bias) is spread evenly over the logarithms of the step sizes.
  at::Tensor step = torch::empty({config.heads});
  torch::nn::init::uniform_(step, std::log(kMinStep), std::log(kMaxStep));
  step = step.exp();
  dt_bias_ = register_parameter("dt_bias", step + at::log(-at::expm1(-step)));
  at::Tensor decay = torch::empty({config.heads});
  torch::nn::init::uniform_(decay, kMinDecay, kMaxDecay);
  a_log_ = register_parameter("a_log", decay.log());
  d_ = register_parameter("d", torch::ones({config.heads}));
  norm_ = register_module("norm", Norm("rmsnorm", config.width, config.norm_eps));
  out_ = register_module("out", Linear(config.width, config.hidden, config.projection_bias, residual_deviation));
}

MambaMixerImpl::Projected MambaMixerImpl::projected(const at::Tensor& x) {
  const int64_t convolved = config_.width + 2 * config_.groups * config_.state;
  const auto parts = in_(x).split_with_sizes({config_.width, convolved, config_.heads}, -1);
  at::Tensor step = at::softplus(wide(parts[2]) + wide(dt_bias_));
  if (config_.min_step > 0) step = at::clamp_min(step, config_.min_step);
  if (std::isfinite(config_.max_step)) step = at::clamp_max(step, config_.max_step);
  return {at::silu(parts[0]), parts[1], step};
}

at::Tensor MambaMixerImpl::scanned(const Projected& in, bool reverse) {
  const int64_t batch = in.xbc.size(0), time = in.xbc.size(1), groups = config_.groups, state = config_.state;
  const at::Tensor bias = conv_bias_.defined() ? conv_bias_ : at::zeros({conv_weight_.size(0)}, conv_weight_.options());
  const auto parts = ops::causal_conv1d(in.xbc, conv_weight_, bias, reverse)
                         .split_with_sizes({config_.width, groups * state, groups * state}, -1);
  const auto grouped = [&](const at::Tensor& part) { return part.unflatten(2, {groups, state}); };
  const at::Tensor y =
      ops::ssd_scan(parts[0].view({batch, time, config_.heads, config_.width / config_.heads}), in.dt,
                    -wide(a_log_).exp(), grouped(parts[1]), grouped(parts[2]), wide(d_), config_.chunk, reverse);
  return normed(y.view({batch, time, config_.width}) * in.gate);
}

at::Tensor MambaMixerImpl::normed(const at::Tensor& gated) const {
  if (config_.groups == 1) return norm_->forward(gated);
  // Each group is normed separately, with its part of the weight.
  const auto parts = gated.chunk(config_.groups, -1), weights = norm_->weight().chunk(config_.groups, 0);
  std::vector<at::Tensor> done;
  for (size_t i = 0; i < parts.size(); ++i) done.push_back(ops::rms_norm(parts[i], weights[i], config_.norm_eps));
  return at::cat(done, -1);
}

at::Tensor MambaMixerImpl::forward(const at::Tensor& x, bool reverse) {
  return out_(scanned(projected(x), reverse));
}

at::Tensor MambaMixerImpl::both(const at::Tensor& x) {
  const Projected in = projected(x);
  return out_(scanned(in, false) + scanned(in, true));
}

BidirectionalBlockImpl::BidirectionalBlockImpl(const GestureSsmConfig& config, double residual_deviation,
                                               const MambaMixer& shared)
    : dropout_(config.dropout) {
  norm_ = register_module("norm", Norm("rmsnorm", config.hidden_dim, config.norm_eps));
  forward_ = shared.is_empty() ? register_module("mixer", MambaMixer(mixer_of(config), residual_deviation)) : shared;
  if (config.share_weights == "false")
    backward_ = register_module("backward_mixer", MambaMixer(mixer_of(config), residual_deviation));
}

at::Tensor BidirectionalBlockImpl::forward(const at::Tensor& x) {
  const at::Tensor normal = norm_(x);
  const at::Tensor told =
      backward_.is_empty() ? forward_->both(normal) : forward_(normal, false) + backward_(normal, true);
  return x + dropped(told, dropout_, is_training());
}

namespace {

MixerConfig mixer_of(const MambaConfig& config) {
  MixerConfig mixer;
  mixer.hidden = config.hidden_size;
  mixer.width = scan_width_of(config);
  mixer.heads = heads_of(config);
  mixer.state = config.state_size;
  mixer.groups = config.num_groups;
  mixer.conv_width = config.conv_width;
  mixer.conv_bias = config.conv_bias;
  mixer.projection_bias = config.projection_bias;
  mixer.chunk = config.chunk_size;
  mixer.min_step = config.min_step;
  mixer.max_step = config.max_step;
  mixer.norm_eps = config.norm_eps;
  return mixer;
}

at::Tensor rows(int64_t count, int64_t width) {
  at::Tensor made = torch::empty({count, width});
  torch::nn::init::normal_(made, 0.0, kInitialDeviation);
  return made;
}

}  // namespace

MambaBlockImpl::MambaBlockImpl(const MambaConfig& config, double residual_deviation) {
  norm_ = register_module("norm", Norm("rmsnorm", config.hidden_size, config.norm_eps));
  mixer_ = register_module("mixer", MambaMixer(mixer_of(config), residual_deviation));
}

at::Tensor MambaBlockImpl::forward(const at::Tensor& x) {
  return x + mixer_(norm_(x), /*reverse=*/false);
}

MambaLmImpl::MambaLmImpl(const MambaConfig& config) {
  if (config.vocab_size < 1) throw UserError("model.vocab_size must be at least 1");
  if (const auto problem = problem_of(config)) throw UserError(problem->message);
  embedding_ = register_parameter("embedding", rows(config.vocab_size, config.hidden_size));
  layers_ = register_module("layers", torch::nn::ModuleList());
  // Each layer adds one projection to the residual stream.
  const double deviation = kInitialDeviation / std::sqrt(static_cast<double>(config.num_layers));
  for (int64_t i = 0; i < config.num_layers; ++i) layers_->push_back(MambaBlock(config, deviation));
  norm_ = register_module("norm", Norm("rmsnorm", config.hidden_size, config.norm_eps));
  if (!config.tie_embeddings) head_ = register_parameter("head", rows(config.vocab_size, config.hidden_size));
}

at::Tensor MambaLmImpl::hidden(const at::Tensor& tokens) {
  at::Tensor x = at::embedding(embedding_, tokens);
  for (const auto& layer : *layers_) x = layer->as<MambaBlockImpl>()->forward(x);
  return norm_(x);
}

at::Tensor MambaLmImpl::loss(const at::Tensor& tokens, const at::Tensor& targets) {
  return ops::linear_cross_entropy(hidden(tokens), head(), targets, -100);
}

}  // namespace plimsoll::model

namespace plimsoll {

Step mamba_step(const MambaConfig& config, int64_t micro_batch_size, int64_t sequence_length) {
  if (const auto problem = model::problem_of(config)) throw UserError(problem->message);
  Step step;
  step.model = [config] { return std::make_shared<model::MambaLmImpl>(config); };
  step.inputs = {{"tokens", {micro_batch_size, sequence_length}, c10::kLong, config.vocab_size},
                 {"targets", {micro_batch_size, sequence_length}, c10::kLong, config.vocab_size}};
  step.loss = [](torch::nn::Module& module, const StepInputs& inputs) {
    return static_cast<model::MambaLmImpl&>(module).loss(inputs["tokens"], inputs["targets"]);
  };
  return step;
}

}  // namespace plimsoll
