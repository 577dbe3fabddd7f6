// Declares the pre-norm residual blocks of encoders and decoders.
#pragma once

#include <torch/nn/module.h>
#include <torch/nn/modules/container/modulelist.h>

#include <string>

#include "models/layers.h"
#include "plimsoll/linear.h"

namespace plimsoll::model {

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

}  // namespace plimsoll::model
