// The configuration of `model.type: prompt_segmentation`: an image and a prompt to a mask.
#pragma once

#include <cstdint>

#include "plimsoll/decoder_config.h"

namespace plimsoll {

struct PromptSegmentationConfig {
  int64_t image_size = 256;  ///< height and width, of the image and of the mask
  DecoderConfig llm;         ///< reads the prompt
};

}  // namespace plimsoll
