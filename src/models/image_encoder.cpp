#include "models/image_encoder.h"

#include <ATen/ATen.h>
#include <torch/nn/init.h>
#include <torch/types.h>

#include <cmath>

#include "ops/layers/packed_attention.h"

namespace plimsoll::model {
namespace {

Linear linear_without_bias(int64_t in, int64_t out) {
  return Linear(in, out, /*bias=*/false);
}

/// Returns the map padded with rows and columns of zeros at its end, to multiples of `window`.
at::Tensor padded(const at::Tensor& x, int64_t window) {
  const int64_t below = (window - x.size(1) % window) % window, right = (window - x.size(2) % window) % window;
  return below + right > 0 ? at::constant_pad_nd(x, {0, 0, 0, right, 0, below}) : x;
}

}  // namespace

ConvImpl::ConvImpl(int64_t in, int64_t out, int64_t kernel, int64_t stride, int64_t groups)
    : stride_(stride), padding_(kernel / 2), groups_(groups) {
  const double bound = 1 / std::sqrt(static_cast<double>(in / groups * kernel * kernel));
  weight_ = register_parameter("weight", torch::empty({out, in / groups, kernel, kernel}));
  torch::nn::init::uniform_(weight_, -bound, bound);
  bias_ = register_parameter("bias", torch::zeros({out}));
}

at::Tensor ConvImpl::forward(const at::Tensor& x) const {
  return at::conv2d(x.permute({0, 3, 1, 2}), weight_, bias_, stride_, padding_, /*dilation=*/1, groups_)
      .permute({0, 2, 3, 1});
}

ConvNormImpl::ConvNormImpl(int64_t in, int64_t out, int64_t kernel, int64_t stride, int64_t groups)
    : ConvImpl(in, out, kernel, stride, groups) {
  norm_ = register_module("norm", rms_norm_of(out));
}

at::Tensor ConvNormImpl::forward(const at::Tensor& x) const {
  return norm_->forward(ConvImpl::forward(x));
}

MbConvImpl::MbConvImpl(int64_t width, int64_t expansion) {
  const int64_t inner = width * expansion;
  widen_ = register_module("widen", linear_without_bias(width, inner));
  widen_norm_ = register_module("widen_norm", rms_norm_of(inner));
  depthwise_ = register_module("depthwise", ConvNorm(inner, inner, 3, 1, inner));
  narrow_ = register_module("narrow", linear_without_bias(inner, width));
  narrow_norm_ = register_module("narrow_norm", rms_norm_of(width));
}

at::Tensor MbConvImpl::forward(const at::Tensor& x) {
  const at::Tensor wide = at::gelu(widen_norm_(widen_(x)));
  return at::gelu(x + narrow_norm_(narrow_(at::gelu(depthwise_(wide)))));
}

PatchMergeImpl::PatchMergeImpl(int64_t in, int64_t out, int64_t stride) {
  first_ = register_module("first", linear_without_bias(in, out));
  first_norm_ = register_module("first_norm", rms_norm_of(out));
  depthwise_ = register_module("depthwise", ConvNorm(out, out, 3, stride, out));
  last_ = register_module("last", linear_without_bias(out, out));
  last_norm_ = register_module("last_norm", rms_norm_of(out));
}

at::Tensor PatchMergeImpl::forward(const at::Tensor& x) {
  const at::Tensor wide = at::gelu(first_norm_(first_(x)));
  return last_norm_(last_(at::gelu(depthwise_(wide))));
}

WindowBlockImpl::WindowBlockImpl(int64_t width, int64_t num_heads, int64_t window, int64_t expansion)
    : heads_(num_heads), window_(window) {
  const auto linear = [](int64_t in, int64_t out) { return Linear(in, out, /*bias=*/false, kInitialDeviation); };
  norm_ = register_module("norm", rms_norm_of(width));
  qkv_ = register_module("qkv", linear(width, 3 * width));
  out_ = register_module("out", linear(width, width));
  local_ = register_module("local", ConvNorm(width, width, 3, 1, width));
  mlp_norm_ = register_module("mlp_norm", rms_norm_of(width));
  up_ = register_module("up", linear(width, expansion * width));
  down_ = register_module("down", linear(expansion * width, width));
}

at::Tensor WindowBlockImpl::mixed(const at::Tensor& x) {
  const int64_t batch = x.size(0), width = x.size(3);
  const at::Tensor map = padded(x, window_);
  const int64_t rows = map.size(1) / window_, columns = map.size(2) / window_, tokens = window_ * window_;
  const at::Tensor windows = map.view({batch, rows, window_, columns, window_, width})
                                 .permute({0, 1, 3, 2, 4, 5})
                                 .reshape({batch * rows * columns, tokens, width});
  const at::Tensor told = ops::packed_attention(qkv_(windows), {heads_, heads_, width / heads_}, {.causal = false});
  const at::Tensor whole = out_(told)
                               .view({batch, rows, columns, window_, window_, width})
                               .permute({0, 1, 3, 2, 4, 5})
                               .reshape({batch, rows * window_, columns * window_, width});
  return whole.narrow(1, 0, x.size(1)).narrow(2, 0, x.size(2));
}

at::Tensor WindowBlockImpl::forward(const at::Tensor& x) {
  const at::Tensor y = local_(x + mixed(norm_(x)));
  return y + down_(at::gelu(up_(mlp_norm_(y))));
}

ImageEncoderImpl::ImageEncoderImpl(const ImageEncoderConfig& config, int64_t channels, int64_t out) {
  const auto& widths = config.widths;
  stem_ = register_module("stem", Conv(channels, widths[0] / 2, 3, 2, 1));
  stem_last_ = register_module("stem_last", Conv(widths[0] / 2, widths[0], 3, 2, 1));
  stages_ = register_module("stages", torch::nn::ModuleList());
  merges_ = register_module("merges", torch::nn::ModuleList());
  for (size_t stage = 0; stage < widths.size(); ++stage) {
    torch::nn::ModuleList blocks;
    for (int64_t i = 0; i < config.depths[stage]; ++i) {
      if (stage == 0)
        blocks->push_back(MbConv(widths[stage], config.expansion));
      else
        blocks->push_back(
            WindowBlock(widths[stage], config.num_heads[stage - 1], config.windows[stage - 1], config.expansion));
    }
    stages_->push_back(blocks);
    // The last stage stays at 1/16, for masks with detail.
    if (stage + 1 < widths.size())
      merges_->push_back(PatchMerge(widths[stage], widths[stage + 1], stage + 2 < widths.size() ? 2 : 1));
  }
  neck_ = register_module("neck", linear_without_bias(widths.back(), out));
  neck_norm_ = register_module("neck_norm", rms_norm_of(out));
  neck_last_ = register_module("neck_last", ConvNorm(out, out, 3, 1, 1));
}

ImageFeatures ImageEncoderImpl::forward(const at::Tensor& image) {
  ImageFeatures features;
  at::Tensor x = stem_last_(at::gelu(stem_(image)));
  for (size_t stage = 0; stage < stages_->size(); ++stage) {
    const auto blocks = std::static_pointer_cast<torch::nn::ModuleListImpl>(stages_->ptr(stage));
    for (const auto& block : *blocks)
      x = stage == 0 ? block->as<MbConvImpl>()->forward(x) : block->as<WindowBlockImpl>()->forward(x);
    if (stage == 0) features.fine = x;
    if (stage < merges_->size()) x = merges_->ptr(stage)->as<PatchMergeImpl>()->forward(x);
  }
  features.coarse = neck_last_(neck_norm_(neck_(x)));
  return features;
}

}  // namespace plimsoll::model
