#include "models/tiny_vit.h"

#include <ATen/ATen.h>
#include <torch/csrc/autograd/custom_function.h>
#include <torch/nn/init.h>
#include <torch/types.h>

#include <array>
#include <cmath>
#include <memory>

#include "models/layers.h"

namespace plimsoll::model {
namespace {

constexpr double kBatchNormEps = 1e-5, kLayerNormEps = 1e-5, kNeckNormEps = 1e-6;

/// A module that holds one tensor: only modules add dots to names.
std::shared_ptr<torch::nn::Module> holder_of(const at::Tensor& weight) {
  auto holder = std::make_shared<torch::nn::Module>();
  holder->register_parameter("weight", weight);
  return holder;
}

/// Makes the weight of a convolution, initialized as libtorch's.
at::Tensor drawn(int64_t out, int64_t in, int64_t kernel) {
  at::Tensor weight = torch::empty({out, in, kernel, kernel});
  const double bound = 1 / std::sqrt(static_cast<double>(in * kernel * kernel));
  torch::nn::init::uniform_(weight, -bound, bound);
  return weight;
}

at::Tensor convolved(const at::Tensor& x, const at::Tensor& weight, int64_t stride, int64_t groups) {
  const int64_t out = weight.size(0), kernel = weight.size(2);
  if (kernel == 1) return at::linear(x, weight.view({out, -1}));
  return at::conv2d(x.permute({0, 3, 1, 2}), weight, {}, stride, kernel / 2, /*dilation=*/1, groups)
      .permute({0, 2, 3, 1});
}

Linear linear_with_bias(int64_t in, int64_t out) {
  return Linear(in, out, /*bias=*/true, kInitialDeviation);
}

struct MbConvImpl : torch::nn::Module {
  MbConvImpl(int64_t width, int64_t inner)
      : conv1(register_module("conv1", ConvBatchNorm(width, inner, 1))),
        conv2(register_module("conv2", ConvBatchNorm(inner, inner, 3, 1, inner))),
        conv3(register_module("conv3", ConvBatchNorm(inner, width, 1))) {}
  at::Tensor forward(const at::Tensor& x) { return at::gelu(x + conv3(at::gelu(conv2(at::gelu(conv1(x)))))); }
  ConvBatchNorm conv1, conv2, conv3;
};

struct MergeImpl : torch::nn::Module {
  MergeImpl(int64_t in, int64_t out, int64_t stride)
      : conv1(register_module("conv1", ConvBatchNorm(in, out, 1))),
        conv2(register_module("conv2", ConvBatchNorm(out, out, 3, stride, out))),
        conv3(register_module("conv3", ConvBatchNorm(out, out, 1))) {}
  at::Tensor forward(const at::Tensor& x) { return conv3(at::gelu(conv2(at::gelu(conv1(x))))); }
  ConvBatchNorm conv1, conv2, conv3;
};

struct MlpImpl : torch::nn::Module {
  MlpImpl(int64_t width, int64_t inner)
      : norm(register_module("norm", ChannelNorm(width, kLayerNormEps))),
        fc1(register_module("fc1", linear_with_bias(width, inner))),
        fc2(register_module("fc2", linear_with_bias(inner, width))) {}
  at::Tensor forward(const at::Tensor& x) { return fc2(at::gelu(fc1(norm(x)))); }
  ChannelNorm norm;
  Linear fc1, fc2;
};

struct BlockImpl : torch::nn::Module {
  BlockImpl(int64_t width, int64_t num_heads, int64_t window, int64_t expansion)
      : window(window),
        attn(register_module("attn", BiasedAttention(width, num_heads, window))),
        local_conv(register_module("local_conv", ConvBatchNorm(width, width, 3, 1, width))),
        mlp(register_module("mlp", std::make_shared<MlpImpl>(width, expansion * width))) {}

  /// Attention within windows. The padding of the last windows takes part.
  at::Tensor mixed(const at::Tensor& x) {
    const int64_t batch = x.size(0), width = x.size(3);
    const int64_t below = (window - x.size(1) % window) % window, right = (window - x.size(2) % window) % window;
    const at::Tensor map = below + right > 0 ? at::constant_pad_nd(x, {0, 0, 0, right, 0, below}) : x;
    const int64_t rows = map.size(1) / window, columns = map.size(2) / window;
    const at::Tensor windows = map.reshape({batch, rows, window, columns, window, width})
                                   .permute({0, 1, 3, 2, 4, 5})
                                   .reshape({batch * rows * columns, window * window, width});
    return attn(windows)
        .view({batch, rows, columns, window, window, width})
        .permute({0, 1, 3, 2, 4, 5})
        .reshape({batch, rows * window, columns * window, width})
        .narrow(1, 0, x.size(1))
        .narrow(2, 0, x.size(2));
  }
  at::Tensor forward(const at::Tensor& x) {
    const at::Tensor y = local_conv(x + mixed(x));
    return y + mlp->forward(y);
  }

  int64_t window;
  BiasedAttention attn;
  ConvBatchNorm local_conv;
  std::shared_ptr<MlpImpl> mlp;
};

/// A stage: its blocks, and the layer to the next stage.
struct StageImpl : torch::nn::Module {
  StageImpl(const ImageEncoderConfig& config, size_t stage) {
    const int64_t width = config.widths[stage];
    torch::nn::ModuleList blocks;
    for (int64_t i = 0; i < config.depths[stage]; ++i) {
      if (stage == 0)
        convolutions.push_back(std::make_shared<MbConvImpl>(width, config.expansion * width));
      else
        attentions.push_back(std::make_shared<BlockImpl>(width, config.num_heads[stage - 1], config.windows[stage - 1],
                                                         config.expansion));
      if (stage == 0)
        blocks->push_back(convolutions.back());
      else
        blocks->push_back(attentions.back());
    }
    register_module("blocks", blocks);
    // The last two stages have the same resolution, for masks with detail.
    if (stage + 1 < config.widths.size())
      downsample = register_module("downsample", std::make_shared<MergeImpl>(width, config.widths[stage + 1],
                                                                             stage + 2 < config.widths.size() ? 2 : 1));
  }
  at::Tensor blocks_of(at::Tensor x) const {
    for (const auto& block : convolutions) x = block->forward(x);
    for (const auto& block : attentions) x = block->forward(x);
    return x;
  }
  std::vector<std::shared_ptr<MbConvImpl>> convolutions;
  std::vector<std::shared_ptr<BlockImpl>> attentions;
  std::shared_ptr<MergeImpl> downsample;
};

}  // namespace

ConvBatchNormImpl::ConvBatchNormImpl(int64_t in, int64_t out, int64_t kernel, int64_t stride, int64_t groups)
    : stride_(stride), groups_(groups), convolution_(drawn(out, in / groups, kernel)) {
  register_module("c", holder_of(convolution_));
  scale_ = torch::ones({out});
  auto norm = holder_of(scale_);
  shift_ = norm->register_parameter("bias", torch::zeros({out}));
  mean_ = norm->register_buffer("running_mean", torch::zeros({out}, torch::kFloat));
  variance_ = norm->register_buffer("running_var", torch::ones({out}, torch::kFloat));
  register_module("bn", norm);
}

at::Tensor ConvBatchNormImpl::forward(const at::Tensor& x) const {
  const at::Tensor scale = scale_ * (variance_ + kBatchNormEps).rsqrt();
  const at::Tensor shift = shift_ - mean_ * scale;
  const at::Tensor y = convolved(x, (convolution_ * scale.view({-1, 1, 1, 1})).to(x.scalar_type()), stride_, groups_);
  return y + shift.to(y.scalar_type());
}

ChannelNormImpl::ChannelNormImpl(int64_t width, double eps) : eps_(eps) {
  weight_ = register_parameter("weight", torch::ones({width}));
  bias_ = register_parameter("bias", torch::zeros({width}));
}

namespace {

/// A LayerNorm whose backward pass takes nearly 0 (1e-6 of it) for 1 / deviation in pixels whose channels all have one
/// value. Their
/// deviation is 0, and 1 / sqrt(eps) would multiply the gradient of a blank picture by 316 in every norm.
struct LayerNorm : torch::autograd::Function<LayerNorm> {
  static at::Tensor forward(torch::autograd::AutogradContext* context, const at::Tensor& x, const at::Tensor& weight,
                            const at::Tensor& bias, double eps) {
    const auto [y, mean, rstd] = at::native_layer_norm(x, {x.size(-1)}, weight, bias, eps);
    // The remainder by nearly the largest 1 / deviation is 1e-6 of that value there, and exactly 1 / deviation below
    // it. CUDA's square roots have an error of 2 units in the last place.
    const double largest = (1 - 1e-6) / std::sqrt(eps);
    context->save_for_backward({x, weight, bias, mean, at::fmod(rstd, largest)});
    return y;
  }
  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context,
                                                 const torch::autograd::variable_list& grads) {
    const auto saved = context->get_saved_variables();
    const at::Tensor& x = saved[0];
    const std::array<bool, 3> needs = {context->needs_input_grad(0), context->needs_input_grad(1),
                                       context->needs_input_grad(2)};
    // Autocast may have made y float32 from a narrower x.
    auto [dx, dweight, dbias] = at::native_layer_norm_backward(grads[0], x.to(grads[0].scalar_type()), {x.size(-1)},
                                                               saved[3], saved[4], saved[1], saved[2], needs);
    return {dx.defined() ? dx.to(x.scalar_type()) : dx, dweight, dbias, at::Tensor()};
  }
};

}  // namespace

at::Tensor ChannelNormImpl::forward(const at::Tensor& x) const {
  return LayerNorm::apply(x, weight_, bias_, eps_);
}

BiasedAttentionImpl::BiasedAttentionImpl(int64_t width, int64_t num_heads, int64_t window) : heads_(num_heads) {
  norm_ = register_module("norm", ChannelNorm(width, kLayerNormEps));
  qkv_ = register_module("qkv", linear_with_bias(width, 3 * width));
  proj_ = register_module("proj", linear_with_bias(width, width));
  biases_ = register_parameter("attention_biases", torch::zeros({num_heads, window * window}));
  const at::Tensor place = torch::arange(window, torch::kLong);
  const at::Tensor apart = (place.unsqueeze(1) - place.unsqueeze(0)).abs();  // rows or columns between two positions
  distances_ = register_buffer(
      "distances", (apart.view({window, 1, window, 1}) * window + apart.view({1, window, 1, window})).reshape({-1}));
}

at::Tensor BiasedAttentionImpl::forward(const at::Tensor& x) {
  const int64_t windows = x.size(0), tokens = x.size(1), width = x.size(2), head = width / heads_;
  // Query, key and value of a head are adjacent.
  const auto parts = qkv_(norm_(x)).view({windows, tokens, heads_, 3, head}).permute({3, 0, 2, 1, 4}).unbind(0);
  const at::Tensor bias = at::embedding(biases_.t(), distances_).t().reshape({1, heads_, tokens, tokens});
  const at::Tensor scores = at::matmul(parts[0], parts[1].transpose(2, 3)) * (1 / std::sqrt(static_cast<double>(head)));
  const at::Tensor shares = at::softmax(scores + bias.to(scores.scalar_type()), -1);
  const at::Tensor mixed = at::matmul(shares.to(parts[2].scalar_type()), parts[2]);
  return proj_(mixed.transpose(1, 2).reshape({windows, tokens, width}));
}

TinyVitImpl::TinyVitImpl(const ImageEncoderConfig& config, int64_t channels, int64_t out) {
  stem_ = ConvBatchNorm(channels, config.widths[0] / 2, 3, 2);
  stem_last_ = ConvBatchNorm(config.widths[0] / 2, config.widths[0], 3, 2);
  auto embed = std::make_shared<torch::nn::Module>();
  auto sequence = std::make_shared<torch::nn::Module>();
  sequence->register_module("0", stem_);
  sequence->register_module("2", stem_last_);
  embed->register_module("seq", sequence);
  register_module("patch_embed", embed);
  layers_ = register_module("layers", torch::nn::ModuleList());
  for (size_t stage = 0; stage < config.widths.size(); ++stage)
    layers_->push_back(std::make_shared<StageImpl>(config, stage));
  auto neck = std::make_shared<torch::nn::Module>();
  neck_norm_ = ChannelNorm(out, kNeckNormEps);
  neck_last_norm_ = ChannelNorm(out, kNeckNormEps);
  neck_ = drawn(out, config.widths.back(), 1);
  neck_last_ = drawn(out, out, 3);
  neck->register_module("0", holder_of(neck_));
  neck->register_module("1", neck_norm_);
  neck->register_module("2", holder_of(neck_last_));
  neck->register_module("3", neck_last_norm_);
  register_module("neck", neck);
}

ImageFeatures TinyVitImpl::forward(const at::Tensor& image) {
  ImageFeatures features;
  at::Tensor x = stem_last_(at::gelu(stem_(image)));
  for (const auto& layer : *layers_) {
    const auto* stage = layer->as<StageImpl>();
    x = stage->blocks_of(x);
    if (!features.fine.defined()) features.fine = x;
    if (stage->downsample) x = stage->downsample->forward(x);
  }
  x = neck_norm_(convolved(x, neck_.to(x.scalar_type()), 1, 1));
  features.coarse = neck_last_norm_(convolved(x, neck_last_.to(x.scalar_type()), 1, 1));
  return features;
}

}  // namespace plimsoll::model
