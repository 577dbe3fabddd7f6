// Declares a decoder-only transformer: pre-norm blocks of causal attention and a feed-forward network.
//
//     tokens -> embedding (+ learned positions) -> [ x + attention(norm(x)); x + mlp(norm(x)) ] * layers -> norm ->
//     loss head
//
// Model families (GPT-2, Llama, Mistral, Gemma 2, Qwen 2 and 3) differ in keys of the configuration. weights/families.h
// has the keys of each family.
#pragma once

#include <torch/nn/module.h>
#include <torch/nn/modules/container/modulelist.h>

#include "models/layers.h"
#include "plimsoll/linear.h"
#include "plimsoll/models.h"

namespace plimsoll::model {

/// Returns the configuration with its zeros ("the usual") resolved. Throws UserError for sizes that do not divide.
DecoderConfig resolved(DecoderConfig config);

/// A layer of causal self-attention with grouped query heads (Ainslie et al. 2023) and rotary positions (Su et al.
/// 2021).
class AttentionImpl : public torch::nn::Module {
 public:
  explicit AttentionImpl(const DecoderConfig& config);
  at::Tensor forward(const at::Tensor& x);  ///< [B, T, hidden] -> [B, T, hidden]

 private:
  DecoderConfig config_;
  Linear qkv_{nullptr}, out_{nullptr};
  Norm q_norm_{nullptr}, k_norm_{nullptr};
};
TORCH_MODULE(Attention);

/// A feed-forward network: SwiGLU or GeGLU (Shazeer 2020), or GELU (Hendrycks and Gimpel 2016, exact or by tanh).
class MlpImpl : public torch::nn::Module {
 public:
  explicit MlpImpl(const DecoderConfig& config);
  at::Tensor forward(const at::Tensor& x);

 private:
  std::string activation_;
  Linear up_{nullptr}, down_{nullptr};
};
TORCH_MODULE(Mlp);

class BlockImpl : public torch::nn::Module {
 public:
  explicit BlockImpl(const DecoderConfig& config);
  at::Tensor forward(const at::Tensor& x);

 private:
  double dropout_;
  Norm attention_norm_{nullptr}, mlp_norm_{nullptr}, attention_post_norm_{nullptr}, mlp_post_norm_{nullptr};
  Attention attention_{nullptr};
  Mlp mlp_{nullptr};
};
TORCH_MODULE(Block);

class DecoderImpl : public torch::nn::Module {
 public:
  DecoderImpl(const DecoderConfig& config, int64_t sequence_length);
  /// Returns the mean cross entropy of next-token prediction; tokens and targets are int64 [B, T].
  at::Tensor loss(const at::Tensor& tokens, const at::Tensor& targets);

  // Parts of the model, for models that put other inputs before the tokens. T is at most the sequence_length.
  at::Tensor embed(const at::Tensor& tokens);     ///< int64 [B, T] -> [B, T, hidden], without positions
  at::Tensor hidden(const at::Tensor& embedded);  ///< [B, T, hidden] -> the same, through all layers and the last norm
  /// Returns the mean cross entropy of the head's logits for [B, T, hidden]. Targets are int64 [B, T]; -100 is ignored.
  at::Tensor loss_of(const at::Tensor& hidden, const at::Tensor& targets);
  const at::Tensor& head() const { return head_.defined() ? head_ : embedding_; }  ///< [vocab_size, hidden]

 private:
  DecoderConfig config_;
  at::Tensor embedding_, positions_, head_;
  torch::nn::ModuleList layers_{nullptr};
  Norm norm_{nullptr};
};
TORCH_MODULE(Decoder);

}  // namespace plimsoll::model
