// Declares the layers and types that several models share: norms, initial weights, pre-norm residual blocks,
// features of an image, constants of video frames.
#pragma once

#include <ATen/ATen.h>
#include <ATen/core/Tensor.h>
#include <torch/nn/module.h>
#include <torch/nn/modules/container/modulelist.h>
#include <torch/nn/pimpl.h>

#include <cstdint>
#include <string>

#include "plimsoll/linear.h"

namespace plimsoll::model {

/// Standard deviation of initial weights (GPT-2).
inline constexpr double kInitialDeviation = 0.02;

/// A norm over the last dimension: RMSNorm (Zhang and Sennrich 2019) or LayerNorm (Ba et al. 2016).
class NormImpl : public torch::nn::Module {
 public:
  NormImpl(const std::string& kind, int64_t size, double eps);
  at::Tensor forward(const at::Tensor& x) const;
  const at::Tensor& weight() const { return weight_; }

 private:
  at::Tensor weight_, bias_;
  double eps_;
};
TORCH_MODULE(Norm);

/// Epsilon of norms that no configuration sets.
inline constexpr double kNormEps = 1e-5;

/// Returns an RMSNorm with this epsilon.
inline Norm rms_norm_of(int64_t width) {
  return Norm("rmsnorm", width, kNormEps);
}

/// The options of a pre-norm residual block of an encoder or a decoder.
struct BlockOptions {
  int64_t width = 0;
  int64_t num_heads = 1;  ///< number of attention heads of transformer blocks; divides width
  double dropout = 0;     ///< dropout probability of each branch before it is added
  double norm_eps = 1e-5;
  double residual_deviation = 0.02;  ///< standard deviation of the initial weights of the projections that add to the
                                     ///< residual stream
  int64_t inner = 0;                 ///< width of the feed-forward network; 0: 4 x width
  bool bias = false;                 ///< all projections have biases
  std::string norm = "rmsnorm";      ///< rmsnorm | layernorm
  std::string activation = "gelu";   ///< gelu | gelu_tanh | quick_gelu
};

/// Applies GELU (Hendrycks and Gimpel 2016): exact, by its tanh form, or as x sigmoid(1.702 x).
at::Tensor activated(const at::Tensor& x, const std::string& activation);

/// Returns `x` with elements dropped in training if p > 0, else `x`.
at::Tensor dropped(const at::Tensor& x, double p, bool training);

/// A feed-forward block, x + down(gelu(up(norm(x)))), for any shape [..., width]. With the defaults it is 4 x width
/// wide inside and has 8 width^2 + width parameters.
class ResidualBlockImpl : public torch::nn::Module {
 public:
  explicit ResidualBlockImpl(const BlockOptions& options);
  at::Tensor forward(const at::Tensor& x);

 private:
  double dropout_;
  std::string activation_;
  Norm norm_{nullptr};
  Linear up_{nullptr}, down_{nullptr};
};
TORCH_MODULE(ResidualBlock);

/// A transformer block for [B, T, width]: attention of every token to every token, then a residual block. With the
/// defaults it has 12 width^2 + 2 width parameters.
class EncoderBlockImpl : public torch::nn::Module {
 public:
  explicit EncoderBlockImpl(const BlockOptions& options);
  at::Tensor forward(const at::Tensor& x);

 private:
  int64_t heads_;
  double dropout_;
  Norm norm_{nullptr};
  Linear qkv_{nullptr}, out_{nullptr};
  ResidualBlock mlp_{nullptr};
};
TORCH_MODULE(EncoderBlock);

/// Returns a list of `depth` blocks of one kind.
template <typename Block>
torch::nn::ModuleList blocks(int64_t depth, const BlockOptions& options) {
  torch::nn::ModuleList list;
  for (int64_t i = 0; i < depth; ++i) list->push_back(Block(options));
  return list;
}

template <typename BlockImpl>
at::Tensor through(const torch::nn::ModuleList& list, at::Tensor x) {
  for (const auto& block : *list) x = block->as<BlockImpl>()->forward(x);
  return x;
}

/// Returns the mean of `values` [B] over the samples whose `counted` [B] is 1; 0 if there are none. The last micro
/// batch of an epoch may have padding, which does not count.
inline at::Tensor counted_mean(const at::Tensor& values, const at::Tensor& counted) {
  return (values * counted).sum() / counted.sum().clamp_min(1);
}

inline constexpr int64_t kFrameChannels = 3;  ///< red, green and blue of a video frame

/// Features of images of S x S pixels at two resolutions, as an image encoder returns them.
struct ImageFeatures {
  at::Tensor fine;    ///< [B, S / 4, S / 4, widths[0]]: result of the first stage
  at::Tensor coarse;  ///< [B, S / 16, S / 16, out]: result of the neck
};

}  // namespace plimsoll::model
