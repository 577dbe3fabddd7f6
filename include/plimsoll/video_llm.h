// The configuration of `model.type: video_llm`: video frames into a language model.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>

#include "plimsoll/decoder_config.h"
#include "plimsoll/dtype.h"

namespace plimsoll {

/// The encoder of a frame: a vision transformer (Dosovitskiy et al. 2021) of pre-norm blocks. What ViT, CLIP and SigLIP
/// do differently are settings of it (weights/vision_families.h).
struct VisionConfig {
  int64_t patch = 16;  ///< height and width of a patch: a token; divides image_size
  int64_t width = 192;
  int64_t depth = 4;                ///< blocks
  int64_t num_heads = 4;            ///< divides width
  int64_t intermediate_size = 0;    ///< width of the feed-forward; 0: 4 x width
  std::string norm = "rmsnorm";     ///< rmsnorm | layernorm
  double norm_eps = 1e-6;           ///< added to the variance
  std::string activation = "gelu";  ///< gelu | gelu_tanh | quick_gelu: x sigmoid(1.702 x)
  bool bias = false;                ///< on the projections of attention and feed-forward
  bool patch_bias = true;           ///< on the patches' projection
  bool class_token = false;         ///< a token of its own before the patches; it is not averaged over
  bool pre_norm = false;            ///< a norm before the first block
  bool final_norm = true;           ///< a norm after the last
  bool cropped = false;             ///< pixels at the right and below that fill no patch are not looked at
  /// Of red, green and blue in [0, 1]: the encoder sees (colour - mean) / std.
  std::array<double, 3> image_mean = {0.5, 0.5, 0.5}, image_std = {0.5, 0.5, 0.5};
};

/// Sizes and parts of a model that reads video frames into a language model.
struct VideoLlmConfig {
  int64_t image_size = 224;  ///< height and width of a frame
  int64_t tokens_per_frame =
      4;  ///< that the language model reads: patches averaged over a square grid of so many cells
  VisionConfig vision;
  DecoderConfig llm;
  std::optional<DType> llm_dtype;  ///< of the language model's weights; empty: as the model's
  bool llm_checkpointing = false;  ///< activation checkpointing of the language model alone
};

}  // namespace plimsoll
