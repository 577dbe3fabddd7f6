// Declares a language model that reads video frames and continues with a caption.
//
//     frames ─ patches ─ vision transformer ─ mean over a grid ─ + frame's position ─ projector ─┐
//     prompt and caption ─ embedding ────────────────────────────────────────────────────────────┴─ decoder ─ loss on
//                                                                                                   the caption
//
// The encoder sees one frame at a time; what happens between frames is the language model's to see (as in LLaVA, Liu et
// al. 2023, and its kin for video).
#pragma once

#include <torch/nn/module.h>
#include <torch/nn/modules/container/modulelist.h>

#include "models/decoder.h"
#include "models/layers.h"
#include "plimsoll/linear.h"
#include "plimsoll/models.h"

namespace plimsoll::model {

/// A vision transformer, then an average over a grid of cells.
class FrameEncoderImpl : public torch::nn::Module {
 public:
  FrameEncoderImpl(const VisionConfig& config, int64_t image_size, int64_t grid);
  at::Tensor forward(const at::Tensor& frames);  ///< [N, 3, S, S] -> [N, grid x grid, width]

  /// Returns the values that forward() averages: the last hidden state of each patch, row by row, [N, patches, width].
  at::Tensor patches(const at::Tensor& frames);

 private:
  int64_t patch_, side_, grid_;
  Linear embed_{nullptr};
  at::Tensor class_token_, positions_;
  Norm pre_norm_{nullptr};
  torch::nn::ModuleList blocks_{nullptr};
  Norm norm_{nullptr};
};
TORCH_MODULE(FrameEncoder);

/// A projector of two layers from the encoder's width to the language model's.
class ProjectorImpl : public torch::nn::Module {
 public:
  ProjectorImpl(int64_t in, int64_t out);
  at::Tensor forward(const at::Tensor& x);

 private:
  Linear up_{nullptr}, down_{nullptr};
};
TORCH_MODULE(Projector);

class VideoLlmImpl : public torch::nn::Module {
 public:
  VideoLlmImpl(const VideoLlmConfig& config, int64_t frames, int64_t text_tokens);

  /// Returns the last layer's states of the text after the video: frames [B, F, 3, S, S], tokens int64 [B, T] -> [B, T,
  /// hidden].
  at::Tensor hidden(const at::Tensor& frames, const at::Tensor& tokens);
  DecoderImpl& llm() { return *llm_; }

 private:
  FrameEncoder vision_{nullptr};
  at::Tensor frame_positions_;
  Projector projector_{nullptr};
  Decoder llm_{nullptr};
};
TORCH_MODULE(VideoLlm);

}  // namespace plimsoll::model
