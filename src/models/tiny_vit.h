// Declares TinyViT (Wu et al. 2022, "TinyViT: Fast Pretraining Distillation for Small Vision Transformers") as the
// image encoder of MobileSAM and TinySAM: its modules have the names that their weights are published with, so that
// these can be loaded.
//
//     image -> patch_embed (1/4) -> layers.0: MBConv * d0, merge (1/8) -> layers.1: blocks * d1, merge (1/16)
//     -> layers.2: blocks * d2, merge (1/16) -> layers.3: blocks * d3 -> neck
//
// Maps are [B, H, W, C] in memory. Batch norms are what they are after training: the means and variances that the
// weights came with, which stay as they are; their scales and shifts are parameters, and part of the convolution before
// them.
#pragma once

#include <torch/nn/module.h>
#include <torch/nn/modules/container/moduledict.h>
#include <torch/nn/modules/container/modulelist.h>

#include "models/layers.h"
#include "plimsoll/linear.h"
#include "plimsoll/models.h"

namespace plimsoll::model {

/// A convolution without bias, then a batch norm of fixed statistics. [B, H, W, in] -> [B, ceil(H / stride), …, out].
class ConvBatchNormImpl : public torch::nn::Module {
 public:
  ConvBatchNormImpl(int64_t in, int64_t out, int64_t kernel, int64_t stride = 1, int64_t groups = 1);
  at::Tensor forward(const at::Tensor& x) const;

 private:
  int64_t stride_, groups_;
  at::Tensor convolution_, scale_, shift_, mean_, variance_;
};
TORCH_MODULE(ConvBatchNorm);

/// A LayerNorm over channels, with an epsilon as in TinyViT. The gradient of a pixel whose channels all have one value
/// is 0: a blank picture's gradient stays finite behind any number of norms.
class ChannelNormImpl : public torch::nn::Module {
 public:
  ChannelNormImpl(int64_t width, double eps);
  at::Tensor forward(const at::Tensor& x) const;

 private:
  at::Tensor weight_, bias_;
  double eps_;
};
TORCH_MODULE(ChannelNorm);

/// Attention among the tokens of a window, with a bias for each head and distance. [W, window^2, C] -> the same.
class BiasedAttentionImpl : public torch::nn::Module {
 public:
  BiasedAttentionImpl(int64_t width, int64_t num_heads, int64_t window);
  at::Tensor forward(const at::Tensor& x);

 private:
  int64_t heads_;
  ChannelNorm norm_{nullptr};
  Linear qkv_{nullptr}, proj_{nullptr};
  at::Tensor biases_;     // [heads, window^2]: bias of a distance in rows and columns
  at::Tensor distances_;  // int64 [window^2 x window^2]: index into biases_ of each pair of tokens
};
TORCH_MODULE(BiasedAttention);

class TinyVitImpl : public torch::nn::Module {
 public:
  /// The neck has `out` output channels.
  TinyVitImpl(const ImageEncoderConfig& config, int64_t channels, int64_t out);
  /// Returns the features of images [B, S, S, channels].
  ImageFeatures forward(const at::Tensor& image);

 private:
  torch::nn::ModuleList layers_{nullptr};
  ConvBatchNorm stem_{nullptr}, stem_last_{nullptr};
  at::Tensor neck_, neck_last_;
  ChannelNorm neck_norm_{nullptr}, neck_last_norm_{nullptr};
};
TORCH_MODULE(TinyVit);

}  // namespace plimsoll::model
