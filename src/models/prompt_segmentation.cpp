#include "models/prompt_segmentation.h"

#include <ATen/ATen.h>
#include <torch/nn/init.h>
#include <torch/types.h>

#include <cmath>

#include "models/config_checks.h"
#include "models/layers.h"
#include "ops/attention/attention.h"
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

namespace plimsoll::model {
namespace {

constexpr double kMaxWavelength = 10000;

/// Returns sines and cosines of rows in one half of the channels, of columns in the other: [side x side, width].
at::Tensor sinusoids(int64_t side, int64_t width) {
  const int64_t waves = width / 4;
  const at::Tensor place = torch::arange(side, torch::kFloat).unsqueeze(1);
  const at::Tensor rate =
      (torch::arange(waves, torch::kFloat) * (-std::log(kMaxWavelength) / static_cast<double>(waves))).exp();
  const at::Tensor angle = place * rate;
  const at::Tensor one = at::cat({angle.sin(), angle.cos()}, 1);  // [side, width / 2]
  const int64_t half = one.size(1);
  return at::cat({one.unsqueeze(1).expand({side, side, half}), one.unsqueeze(0).expand({side, side, half})}, 2)
      .reshape({side * side, width});
}

}  // namespace

CrossAttentionImpl::CrossAttentionImpl(int64_t width, int64_t inner, int64_t num_heads) : heads_(num_heads) {
  q_ = register_module("q", Linear(width, inner));
  k_ = register_module("k", Linear(width, inner));
  v_ = register_module("v", Linear(width, inner));
  out_ = register_module("out", Linear(inner, width));
}

at::Tensor CrossAttentionImpl::forward(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v) {
  const auto split = [&](const at::Tensor& x) {
    return x.view({x.size(0), x.size(1), heads_, x.size(2) / heads_}).transpose(1, 2);
  };
  const at::Tensor mixed = ops::attention(split(q_(q)), split(k_(k)), split(v_(v)), /*causal=*/false);
  return out_(mixed.transpose(1, 2).reshape({q.size(0), q.size(1), -1}));
}

TwoWayBlockImpl::TwoWayBlockImpl(const MaskDecoderConfig& config) {
  const int64_t width = config.width, heads = config.num_heads;
  among_ = register_module("among", CrossAttention(width, width, heads));
  among_norm_ = register_module("among_norm", rms_norm_of(width));
  to_image_ = register_module("to_image", CrossAttention(width, width / 2, heads));
  to_image_norm_ = register_module("to_image_norm", rms_norm_of(width));
  up_ = register_module("up", Linear(width, config.intermediate_size));
  down_ = register_module("down", Linear(config.intermediate_size, width));
  mlp_norm_ = register_module("mlp_norm", rms_norm_of(width));
  from_image_ = register_module("from_image", CrossAttention(width, width / 2, heads));
  from_image_norm_ = register_module("from_image_norm", rms_norm_of(width));
}

void TwoWayBlockImpl::forward(at::Tensor& tokens, at::Tensor& image, const at::Tensor& queries,
                              const at::Tensor& positions) {
  at::Tensor named = tokens + queries;
  tokens = among_norm_(tokens + among_(named, named, tokens));
  const at::Tensor placed = image + positions;
  tokens = to_image_norm_(tokens + to_image_(tokens + queries, placed, image));
  tokens = mlp_norm_(tokens + down_(at::gelu(up_(tokens))));
  image = from_image_norm_(image + from_image_(placed, tokens + queries, tokens));
}

UpscaleImpl::UpscaleImpl(int64_t in, int64_t out) : out_(out) {
  pixels_ = register_module("pixels", Linear(in, 4 * out));
}

at::Tensor UpscaleImpl::forward(const at::Tensor& x) {
  const int64_t batch = x.size(0), height = x.size(1), width = x.size(2);
  return pixels_(x)
      .view({batch, height, width, 2, 2, out_})
      .permute({0, 1, 3, 2, 4, 5})
      .reshape({batch, 2 * height, 2 * width, out_});
}

MaskDecoderImpl::MaskDecoderImpl(const MaskDecoderConfig& config, int64_t side, int64_t fine_width) {
  const int64_t width = config.width;
  mask_token_ = register_parameter("mask_token", torch::empty({1, 1, width}));
  torch::nn::init::normal_(mask_token_, 0.0, kInitialDeviation);
  positions_ = register_buffer("positions", sinusoids(side, width));
  blocks_ = register_module("blocks", torch::nn::ModuleList());
  for (int64_t i = 0; i < config.depth; ++i) blocks_->push_back(TwoWayBlock(config));
  last_ = register_module("last", CrossAttention(width, width / 2, config.num_heads));
  last_norm_ = register_module("last_norm", rms_norm_of(width));
  upscale_ = register_module("upscale", Upscale(width, width / 4));
  upscale_norm_ = register_module("upscale_norm", rms_norm_of(width / 4));
  upscale_last_ = register_module("upscale_last", Upscale(width / 4, width / 8));
  fine_ = register_module("fine", Linear(fine_width, width / 8));
  filter_first_ = register_module("filter_first", Linear(width, width));
  filter_ = register_module("filter", Linear(width, width));
  filter_last_ = register_module("filter_last", Linear(width, width / 8));
}

at::Tensor MaskDecoderImpl::forward(const ImageFeatures& features, const at::Tensor& prompt) {
  const at::Tensor& coarse = features.coarse;
  const int64_t batch = coarse.size(0), side = coarse.size(1), width = coarse.size(3);
  const at::Tensor mask_token = mask_token_.to(prompt.scalar_type()).expand({batch, 1, width});
  const at::Tensor queries = at::cat({mask_token, prompt}, 1);
  const at::Tensor positions = positions_.to(coarse.scalar_type());
  at::Tensor tokens = queries, image = coarse.reshape({batch, side * side, width});
  for (const auto& block : *blocks_) block->as<TwoWayBlockImpl>()->forward(tokens, image, queries, positions);
  tokens = last_norm_(tokens + last_(tokens + queries, image + positions, image));
  const at::Tensor filter =
      filter_last_(at::gelu(filter_(at::gelu(filter_first_(tokens.select(1, 0))))));  // [B, width / 8]
  const at::Tensor map = image.view({batch, side, side, width});
  const at::Tensor upscaled = upscale_last_(at::gelu(upscale_norm_(upscale_(map))));
  const at::Tensor pixels = at::gelu(upscaled + fine_(features.fine));
  return at::bmm(pixels.view({batch, 16 * side * side, width / 8}), filter.unsqueeze(2))
      .view({batch, 4 * side, 4 * side});
}

}  // namespace plimsoll::model
