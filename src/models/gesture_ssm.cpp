#include "models/gesture_ssm.h"

#include <ATen/ATen.h>
#include <torch/types.h>

#include <cmath>

#include "models/config_checks.h"
#include "models/layers.h"
#include "plimsoll/error.h"
#include "plimsoll/models.h"
#include "plimsoll/training.h"

namespace plimsoll::model {

at::Tensor mean_pooled(const at::Tensor& x, int64_t factor) {
  const int64_t batch = x.size(0), time = x.size(1), width = x.size(2), whole = time / factor;
  const at::Tensor means = x.narrow(1, 0, whole * factor).reshape({batch, whole, factor, width}).mean(2);
  if (whole * factor == time) return means;
  return at::cat({means, x.narrow(1, whole * factor, time - whole * factor).mean(1, /*keepdim=*/true)}, 1);
}

GestureSsmImpl::GestureSsmImpl(const GestureSsmConfig& config) : config_(config) {
  const auto stages = static_cast<int64_t>(config.pooling_scales.size()) + 1;
  // Projections into the residual stream start smaller the deeper the model is (GPT-2, section 2.3). Each layer has
  // two.
  const double deviation = kInitialDeviation / std::sqrt(2.0 * static_cast<double>(config.num_layers));
  // Vectors have few numbers, each of deviation 1. Tokens begin with a deviation of 1 too.
  const double embedding = 1 / std::sqrt(static_cast<double>(config.channels + 1));
  embed_ = register_module("embed", Linear(config.channels + 1, config.hidden_dim, /*bias=*/true, embedding));
  layers_ = register_module("layers", torch::nn::ModuleList());
  MambaMixer shared{nullptr};
  for (int64_t i = 0; i < config.num_layers; ++i) {
    const BidirectionalBlock block(config, deviation, shared);
    if (config.share_weights == "true") shared = block->mixer();
    layers_->push_back(block);
  }
  norms_ = register_module("norms", torch::nn::ModuleList());
  for (int64_t i = 0; i < stages; ++i) norms_->push_back(Norm("rmsnorm", config.hidden_dim, config.norm_eps));
  head_ =
      register_module("head", Linear(stages * config.hidden_dim, config.num_classes, /*bias=*/true, kInitialDeviation));
}

at::Tensor GestureSsmImpl::forward(const at::Tensor& vectors) {
  const auto stages = static_cast<int64_t>(norms_->size());
  std::vector<at::Tensor> summaries;
  at::Tensor x = embed_(vectors);
  for (int64_t stage = 0; stage < stages; ++stage) {
    if (stage > 0) x = mean_pooled(x, config_.pooling_scales[static_cast<size_t>(stage - 1)]);
    for (int64_t i = stage * config_.num_layers / stages; i < (stage + 1) * config_.num_layers / stages; ++i)
      x = layers_[static_cast<size_t>(i)]->as<BidirectionalBlockImpl>()->forward(x);
    summaries.push_back(norms_[static_cast<size_t>(stage)]->as<NormImpl>()->forward(x).mean(1));
  }
  return head_(at::cat(summaries, 1));
}

}  // namespace plimsoll::model

namespace plimsoll {
namespace {

struct Answer {
  at::Tensor loss;     ///< mean over the counted samples
  at::Tensor right;    ///< number of counted samples whose class is predicted
  at::Tensor counted;  ///< number of counted samples
};

/// Computes in float32 for any precision. The largest class is computed only with `wants_right`.
Answer answer_of(torch::nn::Module& module, const StepInputs& inputs, bool wants_right) {
  at::Tensor logits = static_cast<model::GestureSsmImpl&>(module).forward(inputs["vectors"]);
  if (logits.scalar_type() != at::kDouble) logits = logits.to(at::kFloat);
  const at::Tensor labels = inputs["labels"], counted = inputs[kSampleMask].to(logits.scalar_type());
  const at::Tensor likely = at::log_softmax(logits, -1).gather(1, labels.unsqueeze(1)).squeeze(1);
  Answer answer;
  answer.counted = counted.sum();
  answer.loss = -(likely * counted).sum() / answer.counted;
  if (wants_right) answer.right = (at::eq(logits.argmax(-1), labels).to(counted.scalar_type()) * counted).sum();
  return answer;
}

}  // namespace

Step gesture_ssm_step(const GestureSsmConfig& config, int64_t micro_batch_size, int64_t vectors) {
  if (const auto problem = model::problem_of(config, vectors)) throw UserError(problem->message);
  Step step;
  step.model = [config] { return std::make_shared<model::GestureSsmImpl>(config); };
  step.inputs = {{"vectors", {micro_batch_size, vectors, config.channels + 1}, c10::kFloat},
                 {"labels", {micro_batch_size}, c10::kLong, config.num_classes},
                 {kSampleMask, {micro_batch_size}, c10::kFloat}};
  step.loss = [](torch::nn::Module& module, const StepInputs& inputs) { return answer_of(module, inputs, false).loss; };
  step.evaluation = [](torch::nn::Module& module, const StepInputs& inputs) {
    const Answer answer = answer_of(module, inputs, true);
    return Evaluation{answer.loss, {{"right", answer.right}, {"counted", answer.counted}}};
  };
  step.metrics = [](const std::map<std::string, at::Tensor>& sums) {
    const double right = sums.at("right").item<double>(), counted = sums.at("counted").item<double>();
    return std::vector<std::pair<std::string, double>>{{"accuracy", right / counted}};
  };
  return step;
}

}  // namespace plimsoll
