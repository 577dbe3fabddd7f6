// Declares a hierarchical image encoder of convolutions and windowed attention. Its shape is that of TinyViT (Wu et al.
// 2022, "TinyViT: Fast Pretraining Distillation for Small Vision Transformers") in MobileSAM and TinySAM:
//
//     image -> stem (1/4) -> MBConv * d0 -> merge (1/8) -> blocks * d1 -> merge (1/16) -> blocks * d2 -> merge (1/16)
//     -> blocks * d3 -> neck
//
// Maps are [B, H, W, C] in memory. So a convolution of 1x1 is a Linear layer, a window of tokens is a view, and
// depthwise convolutions see channels_last tensors without a copy. Four things differ from TinyViT. RMSNorm replaces
// its batch and layer norms: a normalization over images does not suit a micro batch of one, and RMSNorm saves its
// input alone. Attention has no table of relative positions, which would need the whole matrix of scores; the
// convolutions tell positions. Linear layers have no biases. models/tiny_vit.h has TinyViT without these differences.
//
// RMSNorm over the channels of a pixel removes their common scale. Without a bias before it, an even patch of
// brightness v gives v w / |v w|, which depends on the sign of v alone. The stem's convolutions therefore have no norm,
// and all convolutions other than 1x1 have biases.
#pragma once

#include <torch/nn/module.h>
#include <torch/nn/modules/container/modulelist.h>

#include "models/layers.h"
#include "plimsoll/linear.h"
#include "plimsoll/models.h"

namespace plimsoll::model {

/// A convolution with bias, padded to keep the size. [B, H, W, in] -> [B, ceil(H / stride), …, out].
class ConvImpl : public torch::nn::Module {
 public:
  ConvImpl(int64_t in, int64_t out, int64_t kernel, int64_t stride, int64_t groups);
  at::Tensor forward(const at::Tensor& x) const;

 private:
  int64_t stride_, padding_, groups_;
  at::Tensor weight_, bias_;
};
TORCH_MODULE(Conv);

/// A convolution as above, followed by a norm.
class ConvNormImpl : public ConvImpl {
 public:
  ConvNormImpl(int64_t in, int64_t out, int64_t kernel, int64_t stride, int64_t groups);
  at::Tensor forward(const at::Tensor& x) const;

 private:
  Norm norm_{nullptr};
};
TORCH_MODULE(ConvNorm);

/// An inverted bottleneck (Sandler et al. 2018): x + narrow(depthwise(widen(x))).
class MbConvImpl : public torch::nn::Module {
 public:
  MbConvImpl(int64_t width, int64_t expansion);
  at::Tensor forward(const at::Tensor& x);

 private:
  Linear widen_{nullptr}, narrow_{nullptr};
  Norm widen_norm_{nullptr}, narrow_norm_{nullptr};
  ConvNorm depthwise_{nullptr};
};
TORCH_MODULE(MbConv);

/// The layer between stages: a depthwise convolution of `stride` between two linear layers.
class PatchMergeImpl : public torch::nn::Module {
 public:
  PatchMergeImpl(int64_t in, int64_t out, int64_t stride);
  at::Tensor forward(const at::Tensor& x);

 private:
  Linear first_{nullptr}, last_{nullptr};
  Norm first_norm_{nullptr}, last_norm_{nullptr};
  ConvNorm depthwise_{nullptr};
};
TORCH_MODULE(PatchMerge);

/// A block: attention within windows of window x window tokens, a depthwise convolution, a feed-forward network.
class WindowBlockImpl : public torch::nn::Module {
 public:
  WindowBlockImpl(int64_t width, int64_t num_heads, int64_t window, int64_t expansion);
  at::Tensor forward(const at::Tensor& x);

 private:
  at::Tensor mixed(const at::Tensor& x);  ///< attention within each window

  int64_t heads_, window_;
  Norm norm_{nullptr}, mlp_norm_{nullptr};
  Linear qkv_{nullptr}, out_{nullptr}, up_{nullptr}, down_{nullptr};
  ConvNorm local_{nullptr};
};
TORCH_MODULE(WindowBlock);

class ImageEncoderImpl : public torch::nn::Module {
 public:
  /// The neck has `out` output channels.
  ImageEncoderImpl(const ImageEncoderConfig& config, int64_t channels, int64_t out);
  /// Returns the features of images [B, S, S, channels].
  ImageFeatures forward(const at::Tensor& image);

 private:
  Conv stem_{nullptr}, stem_last_{nullptr};
  torch::nn::ModuleList stages_{nullptr}, merges_{nullptr};
  Linear neck_{nullptr};
  Norm neck_norm_{nullptr};
  ConvNorm neck_last_{nullptr};
};
TORCH_MODULE(ImageEncoder);

}  // namespace plimsoll::model
