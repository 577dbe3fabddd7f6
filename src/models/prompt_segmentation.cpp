#include "models/prompt_segmentation.h"

#include <ATen/ATen.h>

#include "models/counted_mean.h"
#include "models/layers.h"
#include "models/segmentation_config.h"
#include "plimsoll/error.h"
#include "plimsoll/models.h"
#include "plimsoll/training.h"

namespace plimsoll::model {
namespace {

constexpr int64_t kIgnoredTarget = -100;

/// Averages [B, side, side, C] to `to` x `to` tokens: [B, to^2, C].
at::Tensor pooled(const at::Tensor& features, int64_t to) {
  const int64_t batch = features.size(0), width = features.size(3), part = features.size(1) / to;
  const at::Tensor parts = features.view({batch, to, part, to, part, width});
  return (part > 1 ? parts.mean(at::IntArrayRef{2, 4}) : parts).reshape({batch, to * to, width});
}

/// Returns the sums over the pixels of [B, S, S]: [B].
at::Tensor area(const at::Tensor& images) {
  return images.sum(at::IntArrayRef{1, 2});
}

/// Returns 2 |A B| / (|A| + |B|) of each image. Numerator and denominator have 1 more, so two empty images give 1.
at::Tensor dice_of(const at::Tensor& a, const at::Tensor& b) {
  return (area(a * b) * 2 + 1) / (area(a) + area(b) + 1);
}

}  // namespace

ProjectionImpl::ProjectionImpl(int64_t in, int64_t out) {
  first_ = register_module("first", Linear(in, out));
  last_ = register_module("last", Linear(out, out));
}

at::Tensor ProjectionImpl::forward(const at::Tensor& x) {
  return last_(at::gelu(first_(x)));
}

PromptSegmentationImpl::PromptSegmentationImpl(const PromptSegmentationConfig& config) : config_(config) {
  if (const auto problem = problem_of(config)) throw UserError(problem->message);
  const int64_t width = config.decoder.width;
  if (config.encoder.type == "tiny_vit")
    tiny_vit_ = register_module("encoder", TinyVit(config.encoder, config.channels, width));
  else
    encoder_ = register_module("encoder", ImageEncoder(config.encoder, config.channels, width));
  if (config.image_tokens > 0)
    image_projection_ = register_module("image_projection", Projection(width, config.llm.hidden_size));
  llm_ = register_module("llm", Decoder(config.llm, config.image_tokens + config.prompt_length));
  prompt_projection_ = register_module("prompt_projection", Projection(config.llm.hidden_size, width));
  // Normalizes the prompt's token, so that it is not faint compared with the mask's own token.
  prompt_norm_ = register_module("prompt_norm", rms_norm_of(width));
  mask_decoder_ =
      register_module("mask_decoder", MaskDecoder(config.decoder, feature_side(config), config.encoder.widths[0]));
}

Segmented PromptSegmentationImpl::forward(const at::Tensor& image, const at::Tensor& tokens,
                                          const at::Tensor& read_at) {
  const ImageFeatures features = tiny_vit_ ? tiny_vit_(image) : encoder_(image);
  at::Tensor words = llm_->embed(tokens);
  if (config_.image_tokens > 0) {
    const at::Tensor seen = image_projection_(pooled(features.coarse, image_token_side(config_)));
    words = at::cat({seen.to(words.scalar_type()), words}, 1);
  }
  const at::Tensor hidden = llm_->hidden(words).narrow(1, config_.image_tokens, config_.prompt_length);
  // A product with weights, because the end of the prompt differs from sample to sample and shapes do not.
  const at::Tensor query = at::bmm(read_at.to(hidden.scalar_type()).unsqueeze(1), hidden);
  const at::Tensor small = mask_decoder_(features, prompt_norm_(prompt_projection_(query)));
  const int64_t size = config_.image_size;
  const at::Tensor logits =
      at::upsample_bilinear2d(small.to(at::kFloat).unsqueeze(1), {size, size}, /*align_corners=*/false).squeeze(1);
  return {logits, hidden};
}

at::Tensor PromptSegmentationImpl::loss_of(const Segmented& got, const at::Tensor& mask, const at::Tensor& targets,
                                           const at::Tensor& counted) {
  const SegmentationLossConfig& weights = config_.loss;
  const at::Tensor wanted = mask.to(at::kFloat), counts = counted.to(at::kFloat);
  at::Tensor each;  // [B]
  const auto add = [&](const at::Tensor& part) { each = each.defined() ? each + part : part; };
  if (weights.bce > 0) add((at::softplus(got.logits) - got.logits * wanted).mean(at::IntArrayRef{1, 2}) * weights.bce);
  if (weights.dice > 0) add((1 - dice_of(at::sigmoid(got.logits), wanted)) * weights.dice);
  at::Tensor total = counted_mean(each, counts);
  if (weights.text > 0) {
    // A sum over tokens, so that a step's loss does not depend on its division into micro batches.
    const at::Tensor learned = targets.masked_fill(counts.eq(0).unsqueeze(1), kIgnoredTarget);
    const at::Tensor answers = learned.ne(kIgnoredTarget).to(at::kFloat).sum() / counts.sum().clamp_min(1);
    total = total + llm_->loss_of(got.hidden, learned).to(at::kFloat) * answers * weights.text;
  }
  return total;
}

namespace {

Evaluation evaluation_of(PromptSegmentationImpl& model, const StepInputs& inputs) {
  const Segmented got = model.forward(inputs["image"], inputs["tokens"], inputs["read_at"]);
  const at::Tensor counts = inputs[kSampleMask].to(at::kFloat), wanted = inputs["mask"].to(at::kFloat);
  const at::Tensor found = got.logits.gt(0).to(at::kFloat);
  // Every sample's structure is in its picture: only random masks may be empty.
  const at::Tensor dice = area(found * wanted) * 2 / (area(found) + area(wanted)).clamp_min(1);
  return {model.loss_of(got, inputs["mask"], inputs["targets"], inputs[kSampleMask]),
          {{"dice", (dice * counts).sum()}, {"samples", counts.sum()}}};
}

std::vector<std::pair<std::string, double>> metrics_of(const std::map<std::string, at::Tensor>& sums) {
  const double samples = sums.at("samples").item<double>();
  return {{"dice", samples > 0 ? sums.at("dice").item<double>() / samples : 0}};
}

}  // namespace
}  // namespace plimsoll::model

namespace plimsoll {

Step prompt_segmentation_step(const PromptSegmentationConfig& config, int64_t micro_batch_size) {
  if (const auto problem = model::problem_of(config)) throw UserError(problem->message);
  PromptSegmentationConfig checked = config;
  checked.llm = model::resolved(config.llm);
  const int64_t batch = micro_batch_size, size = config.image_size, length = config.prompt_length;
  Step step;
  step.model = [checked] { return std::make_shared<model::PromptSegmentationImpl>(checked); };
  step.inputs = {{"image", {batch, size, size, config.channels}, c10::kFloat},
                 {"tokens", {batch, length}, c10::kLong, checked.llm.vocab_size},
                 {"targets", {batch, length}, c10::kLong, checked.llm.vocab_size},
                 {"read_at", {batch, length}, c10::kFloat},
                 {"mask", {batch, size, size}, c10::kByte, 2},
                 {kSampleMask, {batch}, c10::kFloat}};
  step.loss = [](torch::nn::Module& module, const StepInputs& inputs) {
    auto& model = static_cast<model::PromptSegmentationImpl&>(module);
    return model.loss_of(model.forward(inputs["image"], inputs["tokens"], inputs["read_at"]), inputs["mask"],
                         inputs["targets"], inputs[kSampleMask]);
  };
  step.evaluation = [](torch::nn::Module& module, const StepInputs& inputs) {
    return model::evaluation_of(static_cast<model::PromptSegmentationImpl&>(module), inputs);
  };
  step.metrics = model::metrics_of;
  return step;
}

}  // namespace plimsoll
