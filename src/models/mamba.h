// Declares Mamba-2 layers (T. Dao and A. Gu 2024, "Transformers are SSMs"), in one direction or both, and a language
// model of them.
//
//     x ─ in ─┬─ z ─────────────── silu ─┐
//             ├─ xBC ─ conv, silu ─ scan ┴ × ─ norm ─ out ─▶        once from the first token to the last,
//             └─ dt ─ softplus ─────┘                               or from the last to the first as well; added
#pragma once

#include <torch/nn/module.h>
#include <torch/nn/modules/container/modulelist.h>

#include <limits>

#include "models/layers.h"
#include "plimsoll/linear.h"
#include "plimsoll/models.h"

namespace plimsoll::model {

/// The sizes and options of a Mamba-2 layer.
struct MixerConfig {
  int64_t hidden = 0;
  int64_t width = 0;   ///< channels of the scan
  int64_t heads = 1;   ///< number of heads; divides width
  int64_t state = 1;   ///< values of state of each channel
  int64_t groups = 1;  ///< groups of heads that share B and C, and of channels that the gated norm normalizes together
  int64_t conv_width = 4;
  bool conv_bias = true, projection_bias = false;
  int64_t chunk = 128;
  double min_step = 0, max_step = std::numeric_limits<double>::infinity();  ///< bounds to which step sizes are
                                                                            ///< clamped
  double norm_eps = 1e-5;
};
MixerConfig mixer_of(const GestureSsmConfig& config);

/// A mixer of tokens [B, T, hidden] along T. With width w, h heads, state n and g groups it has hidden x (3 w + 2 g n +
/// h) + (w + 2 g n) x (conv_width + 1) + w + 3 h parameters, plus the biases of projections.
class MambaMixerImpl : public torch::nn::Module {
 public:
  MambaMixerImpl(const MixerConfig& config, double residual_deviation);

  /// Returns the result of one direction.
  at::Tensor forward(const at::Tensor& x, bool reverse);

  /// Returns forward(x, false) + forward(x, true), with the projections before and after the scan computed once.
  at::Tensor both(const at::Tensor& x);

 private:
  struct Projected {
    at::Tensor gate;  ///< silu(z), [B, T, w]
    at::Tensor xbc;   ///< [B, T, w + 2 g n]
    at::Tensor dt;    ///< [B, T, h], positive, float32
  };
  Projected projected(const at::Tensor& x);
  at::Tensor scanned(const Projected& in, bool reverse);  ///< after the gate and the norm
  at::Tensor normed(const at::Tensor& gated) const;

  MixerConfig config_;
  Linear in_{nullptr}, out_{nullptr};
  at::Tensor conv_weight_, conv_bias_, dt_bias_, a_log_, d_;
  Norm norm_{nullptr};
};
TORCH_MODULE(MambaMixer);

/// A layer x + mixer(norm(x)) in both directions. An empty `backward` uses `forward` for both.
class BidirectionalBlockImpl : public torch::nn::Module {
 public:
  /// Registers its own mixers. A non-empty `shared` belongs to another layer.
  BidirectionalBlockImpl(const GestureSsmConfig& config, double residual_deviation, const MambaMixer& shared);
  at::Tensor forward(const at::Tensor& x);
  const MambaMixer& mixer() const { return forward_; }

 private:
  double dropout_;
  Norm norm_{nullptr};
  MambaMixer forward_{nullptr}, backward_{nullptr};
};
TORCH_MODULE(BidirectionalBlock);

/// A layer x + mixer(norm(x)) in one direction.
class MambaBlockImpl : public torch::nn::Module {
 public:
  MambaBlockImpl(const MambaConfig& config, double residual_deviation);
  at::Tensor forward(const at::Tensor& x);

 private:
  Norm norm_{nullptr};
  MambaMixer mixer_{nullptr};
};
TORCH_MODULE(MambaBlock);

/// A language model of Mamba-2 layers:
///
///     tokens -> embedding -> [ x + mixer(norm(x)) ] * layers -> norm -> loss head
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
