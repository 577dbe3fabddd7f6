// Declares a classifier of point sequences by bidirectional state-space layers.
#pragma once

#include <torch/nn/module.h>
#include <torch/nn/modules/container/modulelist.h>

#include "models/mamba.h"
#include "plimsoll/models.h"

namespace plimsoll::model {

/// A classifier: vectors ─ embed ─ layers of stage 0 ─ means of pairs ─ layers of stage 1 ─ ... Each stage's normed
/// output is averaged over its tokens; the concatenated means are projected to the classes.
class GestureSsmImpl : public torch::nn::Module {
 public:
  /// Sequences have any length that is at least the product of config.pooling_scales.
  explicit GestureSsmImpl(const GestureSsmConfig& config);

  /// Returns the classes' logits [B, num_classes] for vectors [B, T, channels + 1].
  at::Tensor forward(const at::Tensor& vectors);

 private:
  GestureSsmConfig config_;
  Linear embed_{nullptr}, head_{nullptr};
  torch::nn::ModuleList layers_{nullptr}, norms_{nullptr};
};
TORCH_MODULE(GestureSsm);

/// Returns the means of groups of `factor` tokens, [B, T, width] to [B, ceil(T / factor), width]. The last group may
/// have fewer tokens.
at::Tensor mean_pooled(const at::Tensor& x, int64_t factor);

}  // namespace plimsoll::model
