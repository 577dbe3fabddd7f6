#include "models/video_llm.h"

#include <ATen/ATen.h>
#include <c10/core/DefaultDtype.h>
#include <torch/nn/init.h>
#include <torch/types.h>

#include <cmath>

#include "models/config_checks.h"
#include "models/layers.h"
#include "ops/libtorch_types.h"
#include "plimsoll/error.h"
#include "plimsoll/models.h"
#include "plimsoll/training.h"

namespace plimsoll::model {
namespace {

constexpr int64_t kIgnored = -100;

// Sets the type of the weights that are made during its lifetime, if the configuration has one.
class WeightsMadeAs {
 public:
  explicit WeightsMadeAs(const std::optional<DType>& dtype) : previous_(c10::get_default_dtype()) {
    if (dtype) c10::set_default_dtype(c10::scalarTypeToTypeMeta(scalar_type_of(*dtype)));
  }
  ~WeightsMadeAs() { c10::set_default_dtype(previous_); }

 private:
  caffe2::TypeMeta previous_;
};

at::Tensor learned_positions(int64_t count, int64_t width) {
  at::Tensor positions = torch::empty({count, width});
  torch::nn::init::normal_(positions, 0.0, kInitialDeviation);
  return positions;
}

}  // namespace

FrameEncoderImpl::FrameEncoderImpl(const VisionConfig& config, int64_t image_size, int64_t grid)
    : patch_(config.patch), side_(image_size / config.patch), grid_(grid) {
  embed_ = register_module(
      "embed", Linear(kFrameChannels * patch_ * patch_, config.width, config.patch_bias, kInitialDeviation));
  const int64_t before = config.class_token ? 1 : 0;
  if (config.class_token) {
    class_token_ = register_parameter("class_token", torch::empty({config.width}));
    torch::nn::init::normal_(class_token_, 0.0, kInitialDeviation);
  }
  positions_ = register_parameter("positions", learned_positions(before + side_ * side_, config.width));
  if (config.pre_norm) pre_norm_ = register_module("pre_norm", Norm(config.norm, config.width, config.norm_eps));
  const double depth = static_cast<double>(std::max<int64_t>(1, config.depth));
  blocks_ = register_module(
      "blocks", blocks<EncoderBlock>(config.depth, {.width = config.width,
                                                    .num_heads = config.num_heads,
                                                    .norm_eps = config.norm_eps,
                                                    .residual_deviation = kInitialDeviation / std::sqrt(2.0 * depth),
                                                    .inner = config.intermediate_size,
                                                    .bias = config.bias,
                                                    .norm = config.norm,
                                                    .activation = config.activation}));
  if (config.final_norm) norm_ = register_module("norm", Norm(config.norm, config.width, config.norm_eps));
}

at::Tensor FrameEncoderImpl::patches(const at::Tensor& frames) {
  const int64_t count = frames.size(0), seen = side_ * patch_;
  const at::Tensor whole = frames.size(3) == seen ? frames : frames.narrow(2, 0, seen).narrow(3, 0, seen);
  const at::Tensor pixels = whole.reshape({count, kFrameChannels, side_, patch_, side_, patch_})
                                .permute({0, 2, 4, 1, 3, 5})
                                .reshape({count, side_ * side_, kFrameChannels * patch_ * patch_});
  at::Tensor x = embed_(pixels);
  if (class_token_.defined()) {
    const at::Tensor first = class_token_.to(x.scalar_type()).expand({count, 1, x.size(2)});
    x = at::cat({first, x}, 1);
  }
  x = x + positions_;
  if (pre_norm_) x = pre_norm_(x);
  x = through<EncoderBlockImpl>(blocks_, x);
  // The norm is per token, so the unused class token is dropped before it.
  if (class_token_.defined()) x = x.narrow(1, 1, side_ * side_);
  return norm_ ? norm_(x) : x;
}

at::Tensor FrameEncoderImpl::forward(const at::Tensor& frames) {
  const int64_t count = frames.size(0), cell = side_ / grid_;
  const at::Tensor seen = patches(frames);
  const int64_t width = seen.size(2);
  return seen.reshape({count, grid_, cell, grid_, cell, width}).mean({2, 4}).view({count, grid_ * grid_, width});
}

ProjectorImpl::ProjectorImpl(int64_t in, int64_t out) {
  up_ = register_module("up", Linear(in, out, /*bias=*/true, kInitialDeviation));
  down_ = register_module("down", Linear(out, out, /*bias=*/true, kInitialDeviation));
}

at::Tensor ProjectorImpl::forward(const at::Tensor& x) {
  return down_(at::gelu(up_(x)));
}

VideoLlmImpl::VideoLlmImpl(const VideoLlmConfig& config, int64_t frames, int64_t text_tokens) {
  vision_ = register_module("vision", FrameEncoder(config.vision, config.image_size, grid_of(config)));
  frame_positions_ = register_parameter("frame_positions", learned_positions(frames, config.vision.width));
  projector_ = register_module("projector", Projector(config.vision.width, config.llm.hidden_size));
  const WeightsMadeAs dtype(config.llm_dtype);
  llm_ = register_module("llm", Decoder(config.llm, frames * config.tokens_per_frame + text_tokens));
}

at::Tensor VideoLlmImpl::hidden(const at::Tensor& frames, const at::Tensor& tokens) {
  const int64_t batch = frames.size(0), count = frames.size(1), side = frames.size(3);
  const at::Tensor seen = vision_(frames.view({batch * count, kFrameChannels, side, side}));
  const int64_t each = seen.size(1), width = seen.size(2);
  const at::Tensor placed = seen.view({batch, count, each, width}) + frame_positions_.unsqueeze(1);
  const at::Tensor text = llm_->embed(tokens);
  // Converts to the language model's type, for any type of the encoder.
  const at::Tensor video = projector_(placed.view({batch, count * each, width})).to(text.scalar_type());
  return llm_->hidden(at::cat({video, text}, 1)).narrow(1, count * each, tokens.size(1)).contiguous();
}

namespace {

/// Returns the targets; those of padding rows are ignored.
at::Tensor counted_targets(const StepInputs& inputs) {
  const at::Tensor counts = inputs[kSampleMask].to(at::kLong).unsqueeze(1);
  return inputs["targets"] * counts + (counts - 1) * -kIgnored;
}

struct CaptionLoss {
  at::Tensor hidden;   ///< [B, T, hidden]
  at::Tensor targets;  ///< int64 [B, T]
  at::Tensor nats;     ///< sum over the tokens of all captions
  at::Tensor tokens;   ///< number of these tokens
  at::Tensor loss;
};

// The mean over a micro batch's tokens would weigh a token by the other captions of its micro batch. A sum divided by
// the samples' maximum number of tokens does not depend on the division into micro batches.
CaptionLoss caption_loss(VideoLlmImpl& model, const StepInputs& inputs) {
  CaptionLoss result;
  result.hidden = model.hidden(inputs["frames"], inputs["tokens"]);
  result.targets = counted_targets(inputs);
  result.tokens = result.targets.ne(kIgnored).to(at::kFloat).sum();
  result.nats = model.llm().loss_of(result.hidden, result.targets) * result.tokens;
  result.loss = result.nats / (inputs[kSampleMask].to(at::kFloat).sum() * static_cast<double>(result.targets.size(1)));
  return result;
}

Evaluation evaluate(VideoLlmImpl& model, const StepInputs& inputs) {
  const CaptionLoss loss = caption_loss(model, inputs);
  // Computes the logits of one sample at a time, because a vocabulary may be large.
  std::vector<at::Tensor> predicted;
  for (int64_t i = 0; i < loss.hidden.size(0); ++i)
    predicted.push_back(at::linear(loss.hidden.select(0, i), model.llm().head()).argmax(-1));
  const at::Tensor right = at::stack(predicted).eq(loss.targets).to(at::kFloat).sum(1);
  const at::Tensor all = loss.targets.ne(kIgnored).to(at::kFloat).sum(1);
  const at::Tensor counts = inputs[kSampleMask].to(at::kFloat);
  return {loss.loss,
          {{"nats", loss.nats},
           {"tokens", loss.tokens},
           {"right", right.sum()},
           {"whole", (right.eq(all).to(at::kFloat) * counts).sum()},
           {"captions", counts.sum()}}};
}

}  // namespace
}  // namespace plimsoll::model

namespace plimsoll {

Step video_llm_step(const VideoLlmConfig& config, int64_t frames, int64_t text_tokens, int64_t micro_batch_size) {
  if (const auto problem = model::problem_of(config)) throw UserError(problem->message);
  VideoLlmConfig checked = config;
  checked.llm = model::resolved(config.llm);
  const int64_t batch = micro_batch_size, side = config.image_size, words = checked.llm.vocab_size;
  Step step;
  step.model = [checked, frames, text_tokens] {
    return std::make_shared<model::VideoLlmImpl>(checked, frames, text_tokens);
  };
  step.inputs = {{"frames", {batch, frames, model::kFrameChannels, side, side}, c10::kFloat},
                 {"tokens", {batch, text_tokens}, c10::kLong, words},
                 {"targets", {batch, text_tokens}, c10::kLong, words},
                 {kSampleMask, {batch}, c10::kFloat}};
  step.loss = [](torch::nn::Module& module, const StepInputs& inputs) {
    return model::caption_loss(static_cast<model::VideoLlmImpl&>(module), inputs).loss;
  };
  step.evaluation = [](torch::nn::Module& module, const StepInputs& inputs) {
    return model::evaluate(static_cast<model::VideoLlmImpl&>(module), inputs);
  };
  step.metrics = [](const std::map<std::string, at::Tensor>& sums) {
    const auto sum = [&](const char* name) { return sums.at(name).item<double>(); };
    return std::vector<std::pair<std::string, double>>{{"captions_right", sum("whole") / sum("captions")},
                                                       {"caption_tokens_right", sum("right") / sum("tokens")},
                                                       {"caption_loss", sum("nats") / sum("tokens")}};
  };
  return step;
}

}  // namespace plimsoll
