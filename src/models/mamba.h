// Mamba-2 layers (T. Dao and A. Gu 2024, "Transformers are SSMs"), in one direction or both.
//
//     x ─ in ─┬─ z ─────────────── silu ─┐
//             ├─ xBC ─ conv, silu ─ scan ┴ × ─ norm ─ out ─▶        once from the first token to the last,
//             └─ dt ─ softplus ─────┘                               or from the last to the first as well; added
#pragma once

#include <torch/nn/module.h>

#include <limits>

#include "models/layers.h"
#include "plimsoll/linear.h"
#include "plimsoll/models.h"

namespace plimsoll::model {

struct MixerConfig {
  int64_t hidden = 0;
  int64_t width = 0;   ///< of the scan
  int64_t heads = 1;   ///< divides width
  int64_t state = 1;   ///< numbers that each channel remembers
  int64_t groups = 1;  ///< of heads that share B and C, and of channels that the gated norm takes together
  int64_t conv_width = 4;
  bool conv_bias = true, projection_bias = false;
  int64_t chunk = 128;
  double least_step = 0, most_step = std::numeric_limits<double>::infinity();  ///< steps are held between them
  double norm_eps = 1e-5;
};
MixerConfig mixer_of(const GestureSsmConfig& config);

/// Tokens [B, T, hidden] mixed along T. With width w, h heads, state n and g groups:
/// hidden x (3 w + 2 g n + h) + (w + 2 g n) x (conv_width + 1) + w + 3 h parameters, biases of projections beside.
class MambaMixerImpl : public torch::nn::Module {
 public:
  MambaMixerImpl(const MixerConfig& config, double residual_deviation);

  /// In one direction.
  at::Tensor forward(const at::Tensor& x, bool reverse);

  /// forward(x, false) + forward(x, true), with the projections before and after the scan computed once.
  at::Tensor both(const at::Tensor& x);

 private:
  struct Projected {
    at::Tensor gate;  ///< silu(z), [B, T, w]
    at::Tensor xbc;   ///< [B, T, w + 2 g n]
    at::Tensor dt;    ///< [B, T, h], above 0; float32
  };
  Projected projected(const at::Tensor& x);
  at::Tensor scanned(const Projected& in, bool reverse);  ///< gated and normed
  at::Tensor normed(const at::Tensor& gated) const;

  MixerConfig config_;
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
