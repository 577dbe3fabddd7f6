// Blocks that encoders and decoders are made of, whatever they read: all pre-norm and residual.
#pragma once

#include <torch/nn/module.h>
#include <torch/nn/modules/container/modulelist.h>

#include <string>

#include "models/layers.h"
#include "plimsoll/linear.h"

namespace plimsoll::model {

struct BlockOptions {
  int64_t width = 0;
  int64_t num_heads = 1;  ///< of transformer blocks; divides width
  double dropout = 0;     ///< on what is added
  double norm_eps = 1e-5;
  double residual_deviation = 0.02;  ///< of the projections that add to the residual stream
  int64_t inner = 0;                 ///< width of the feed-forward; 0: 4 x width
  bool bias = false;                 ///< on all projections
  std::string norm = "rmsnorm";      ///< rmsnorm | layernorm
  std::string activation = "gelu";   ///< gelu | gelu_tanh | quick_gelu
};

/// gelu (Hendrycks and Gimpel 2016), by its tanh form, or as x sigmoid(1.702 x).
at::Tensor activated(const at::Tensor& x, const std::string& activation);

/// `x` with elements dropped, in training where p > 0.
at::Tensor dropped(const at::Tensor& x, double p, bool training);

/// x + down(gelu(up(norm(x)))), 4 x width inside: 8 width^2 + width parameters, with the defaults. Any shape [...,
/// width].
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

/// Attention of every token to every token, then a residual block: 12 width^2 + 2 width parameters, with the
/// defaults. [B, T, width].
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

/// `depth` blocks of a kind, in a list.
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

}  // namespace plimsoll::model
