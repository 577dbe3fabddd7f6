// Bidirectional Mamba-2 layers (T. Dao and A. Gu 2024, "Transformers are SSMs").
//
//     x ─ in ─┬─ z ─────────────── silu ─┐
//             ├─ xBC ─ conv, silu ─ scan ┴ × ─ norm ─ out ─▶        once from the first token to the last,
//             └─ dt ─ softplus ─────┘                               once from the last to the first; added
#pragma once

#include <torch/nn/module.h>

#include "model/layers.h"
#include "plimsoll/gesture_ssm.h"
#include "plimsoll/linear.h"

namespace plimsoll::model {

/// Tokens [B, T, hidden] mixed along T. With w = expand x hidden_dim, h = w / head_dim heads and n = d_state:
/// hidden x (3 w + 2 n + h) + (w + 2 n) x (conv_width + 1) + w + 3 h parameters.
class MambaMixerImpl : public torch::nn::Module {
 public:
  MambaMixerImpl(const GestureSsmConfig& config, double residual_deviation);

  /// In one direction.
  at::Tensor forward(const at::Tensor& x, bool reverse);

  /// forward(x, false) + forward(x, true), with the projections before and after the scan computed once.
  at::Tensor both(const at::Tensor& x);

 private:
  struct Projected {
    at::Tensor gate;  ///< silu(z), [B, T, w]
    at::Tensor xbc;   ///< [B, T, w + 2 n]
    at::Tensor dt;    ///< [B, T, h], above 0; float32
  };
  Projected projected(const at::Tensor& x);
  at::Tensor scanned(const Projected& in, bool reverse);  ///< gated and normed

  int64_t width_, heads_, state_, chunk_;
  Linear in_{nullptr}, out_{nullptr};
  at::Tensor conv_weight_, conv_bias_, dt_bias_, a_log_, d_;
  Norm norm_{nullptr};
};
TORCH_MODULE(MambaMixer);

/// x + mixer(norm(x)) in both directions: `backward` may be empty, then `forward` is used for both.
class BidirectionalBlockImpl : public torch::nn::Module {
 public:
  /// Registers the mixers that are its own; `shared`, where it is not empty, is another's.
  BidirectionalBlockImpl(const GestureSsmConfig& config, double residual_deviation, const MambaMixer& shared);
  at::Tensor forward(const at::Tensor& x);
  const MambaMixer& mixer() const { return forward_; }

 private:
  double dropout_;
  Norm norm_{nullptr};
  MambaMixer forward_{nullptr}, backward_{nullptr};
};
TORCH_MODULE(BidirectionalBlock);

}  // namespace plimsoll::model
