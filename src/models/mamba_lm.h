// Declares a language model of Mamba-2 layers (T. Dao and A. Gu 2024).
//
//     tokens -> embedding -> [ x + mixer(norm(x)) ] * layers -> norm -> loss head
#pragma once

#include <torch/nn/module.h>
#include <torch/nn/modules/container/modulelist.h>

#include "models/layers.h"
#include "models/mamba.h"
#include "plimsoll/models.h"

namespace plimsoll::model {

class MambaBlockImpl : public torch::nn::Module {
 public:
  MambaBlockImpl(const MambaConfig& config, double residual_deviation);
  at::Tensor forward(const at::Tensor& x);

 private:
  Norm norm_{nullptr};
  MambaMixer mixer_{nullptr};
};
TORCH_MODULE(MambaBlock);

class MambaLmImpl : public torch::nn::Module {
 public:
  /// Throws UserError for a configuration whose sizes do not divide.
  explicit MambaLmImpl(const MambaConfig& config);
  at::Tensor hidden(const at::Tensor& tokens);  ///< int64 [B, T] -> [B, T, hidden], after the last norm
  /// Returns the mean cross entropy of next-token prediction. Tokens and targets are int64 [B, T]; targets of -100 are
  /// ignored.
  at::Tensor loss(const at::Tensor& tokens, const at::Tensor& targets);
  const at::Tensor& head() const { return head_.defined() ? head_ : embedding_; }  ///< [vocab_size, hidden]

 private:
  at::Tensor embedding_, head_;
  torch::nn::ModuleList layers_{nullptr};
  Norm norm_{nullptr};
};
TORCH_MODULE(MambaLm);

}  // namespace plimsoll::model
