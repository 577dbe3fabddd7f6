#include "models/mask_decoder.h"

#include <ATen/ATen.h>
#include <torch/nn/init.h>
#include <torch/types.h>

#include <cmath>

#include "ops/attention/attention.h"

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
