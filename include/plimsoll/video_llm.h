// The configuration of `model.type: video_llm`: video frames into a language model.
#pragma once

#include <cstdint>
#include <optional>

#include "plimsoll/decoder_config.h"
#include "plimsoll/dtype.h"

namespace plimsoll {

/// The encoder of a frame: a vision transformer (Dosovitskiy et al. 2021) of pre-norm blocks without biases.
struct VisionConfig {
  int64_t patch = 16;  ///< height and width of a patch: a token; divides image_size
  int64_t width = 192;
  int64_t depth = 4;      ///< blocks
  int64_t num_heads = 4;  ///< divides width
};

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
