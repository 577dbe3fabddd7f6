// The configuration of `model.type: prompt_segmentation`: an image and a prompt to a mask.
#pragma once

#include <array>
#include <cstdint>
#include <string>

#include "plimsoll/decoder_config.h"

namespace plimsoll {

/// A hierarchical image encoder in four stages, at 1/4, 1/8, 1/16 and 1/16 of the image: inverted bottlenecks, then
/// three of attention within windows (Wu et al. 2022, "TinyViT", as MobileSAM and TinySAM have it).
struct ImageEncoderConfig {
  /// compact: RMSNorm and no biases (models/image_encoder.h); tiny_vit: as published, to start from published weights.
  std::string type = "compact";
  std::array<int64_t, 4> widths = {16, 32, 48, 64};
  std::array<int64_t, 4> depths = {1, 1, 2, 1};  ///< blocks of each stage
  std::array<int64_t, 3> num_heads = {2, 3, 4};  ///< of the last three stages; each divides the stage's width
  std::array<int64_t, 3> windows = {4, 4, 4};    ///< their height and width in tokens; maps are padded to a multiple
  int64_t expansion = 4;                         ///< width inside a block, in widths of its stage
};

/// Cross-attention both ways between prompt and image, then a mask (Kirillov et al. 2023, "Segment Anything").
struct MaskDecoderConfig {
  int64_t width = 32;  ///< of image features and prompt tokens; a multiple of 8
  int64_t depth = 2;   ///< two-way blocks
  int64_t num_heads = 2;
  int64_t intermediate_size = 64;  ///< of the prompt tokens' feed-forward
};

/// What the parts of the loss count for; 0 leaves the part out.
struct SegmentationLossConfig {
  double bce = 1;   ///< binary cross entropy, mean over pixels
  double dice = 1;  ///< 1 - Dice of the probabilities
  double text = 0;  ///< next-token loss of the answer: nats an answer
};

/// Sizes and parts of a model that segments an image by a prompt.
struct PromptSegmentationConfig {
  int64_t image_size = 64;     ///< height and width, of the image and of the mask; a multiple of 16
  int64_t channels = 1;        ///< of the image
  int64_t prompt_length = 32;  ///< tokens that the language model reads, answer included
  int64_t image_tokens = 0;    ///< image features that it reads before them (LLaVA): a square number; 0: none
  ImageEncoderConfig encoder;
  DecoderConfig llm;  ///< reads the prompt
  MaskDecoderConfig decoder;
  SegmentationLossConfig loss;
};

}  // namespace plimsoll
