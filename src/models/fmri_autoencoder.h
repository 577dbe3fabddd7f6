// Declares an autoencoder from video, audio and text to fMRI voxels and back, over one bottleneck.
//
//     frames ─ patches ─ video encoder ─┐
//     mel ──── patches ─ audio encoder ─┼─ fusion ─▶ code ─▶ fMRI decoder ─▶ voxels'
//     words ──────────── text encoder ──┘             ≈
//     voxels ─────────── fMRI encoder ──────────────▶ code' ─▶ video, audio, text decoder ─▶ frames', mel', words'
//
// The loss weighs the mean squares of voxels' - voxels, frames' - frames, mel' - mel, words' - words, code - code'.
#pragma once

#include <torch/nn/module.h>
#include <torch/nn/modules/container/modulelist.h>

#include "models/layers.h"
#include "plimsoll/linear.h"
#include "plimsoll/models.h"

namespace plimsoll::model {

/// An encoder of tokens [B, tokens, features] to a summary [B, width].
class ModalityEncoderImpl : public torch::nn::Module {
 public:
  ModalityEncoderImpl(int64_t tokens, int64_t features, const ModalityConfig& config, double dropout, double eps);
  at::Tensor forward(const at::Tensor& tokens);

 private:
  Linear embed_{nullptr};
  at::Tensor positions_;
  torch::nn::ModuleList blocks_{nullptr};
  Norm norm_{nullptr};
};
TORCH_MODULE(ModalityEncoder);

/// A decoder of a code [B, bottleneck] to tokens [B, tokens, features].
class ModalityDecoderImpl : public torch::nn::Module {
 public:
  ModalityDecoderImpl(int64_t code, int64_t tokens, int64_t features, const ModalityConfig& config, double dropout,
                      double eps);
  at::Tensor forward(const at::Tensor& code);

 private:
  Linear spread_{nullptr}, head_{nullptr};
  at::Tensor positions_;
  torch::nn::ModuleList blocks_{nullptr};
  Norm norm_{nullptr};
};
TORCH_MODULE(ModalityDecoder);

/// A stack: in -> width, residual blocks, norm, width -> out.
class ResidualStackImpl : public torch::nn::Module {
 public:
  ResidualStackImpl(int64_t in, int64_t out, int64_t depth, const BlockOptions& options, bool bias_of_last);
  at::Tensor forward(const at::Tensor& x);

 private:
  Linear first_{nullptr}, last_{nullptr};
  torch::nn::ModuleList blocks_{nullptr};
  Norm norm_{nullptr};
};
TORCH_MODULE(ResidualStack);

/// A micro batch's loss, its parts and its predictions.
struct FmriOutputs {
  at::Tensor loss;                                        ///< [B], float32: the weighted sum of the parts
  std::vector<std::pair<std::string, at::Tensor>> parts;  ///< [B] each, with the names of model.loss
  at::Tensor predicted;  ///< [B, voxels], float32, from the stimuli; undefined if model.loss.fmri is 0
};

class FmriAutoencoderImpl : public torch::nn::Module {
 public:
  /// Throws UserError for a configuration that problem_of() rejects.
  explicit FmriAutoencoderImpl(const FmriAutoencoderConfig& config);

  /// Returns the results for inputs as fmri_autoencoder_step() declares them. Squares and means are computed in float32
  /// for any precision.
  FmriOutputs forward(const at::Tensor& frames, const at::Tensor& mel, const at::Tensor& words,
                      const at::Tensor& voxels);

 private:
  FmriAutoencoderConfig config_;
  ModalityEncoder video_encoder_{nullptr}, audio_encoder_{nullptr}, text_encoder_{nullptr};
  ResidualStack fusion_{nullptr}, fmri_decoder_{nullptr}, fmri_encoder_{nullptr};
  ModalityDecoder video_decoder_{nullptr}, audio_decoder_{nullptr}, text_decoder_{nullptr};
};
TORCH_MODULE(FmriAutoencoder);

}  // namespace plimsoll::model
