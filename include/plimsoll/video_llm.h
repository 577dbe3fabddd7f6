// The configuration of `model.type: video_llm`: video frames into a language model.
#pragma once

#include <cstdint>

#include "plimsoll/decoder_config.h"

namespace plimsoll {

struct VideoLlmConfig {
  int64_t image_size = 224;  ///< height and width of a frame
  DecoderConfig llm;
};

}  // namespace plimsoll
