#include "models/mamba_lm.h"

#include <ATen/ATen.h>
#include <torch/nn/init.h>
#include <torch/types.h>

#include <cmath>

#include "models/mamba_config.h"
#include "ops/loss/linear_cross_entropy.h"
#include "plimsoll/error.h"
#include "plimsoll/models.h"
#include "plimsoll/training.h"

namespace plimsoll::model {
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
