// A classifier of point sequences by bidirectional state-space layers.
#pragma once

#include <torch/nn/module.h>
#include <torch/nn/modules/container/modulelist.h>

#include "models/mamba.h"
#include "plimsoll/models.h"

namespace plimsoll::model {

/// Vectors ─ embed ─ layers of stage 0 ─ means of pairs ─ layers of stage 1 ─ ... ; the mean over the tokens of every
/// stage's normed output, side by side, to the classes.
class GestureSsmImpl : public torch::nn::Module {
 public:
  /// For sequences of any length that is at least the product of config.pooling_scales.
  explicit GestureSsmImpl(const GestureSsmConfig& config);

  /// Vectors [B, T, channels + 1] to the classes' logits [B, num_classes].
  at::Tensor forward(const at::Tensor& vectors);

 private:
  GestureSsmConfig config_;
  Linear embed_{nullptr}, head_{nullptr};
  torch::nn::ModuleList layers_{nullptr}, norms_{nullptr};
};
TORCH_MODULE(GestureSsm);

/// The mean of `factor` tokens at a time, [B, T, width] to [B, ceil(T / factor), width]; the last of them may be of
/// fewer.
at::Tensor mean_pooled(const at::Tensor& x, int64_t factor);

}  // namespace plimsoll::model
