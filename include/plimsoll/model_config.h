// Declares ModelConfig: the model of a job, with a configuration for each `model.type`.
#pragma once

#include <filesystem>
#include <optional>
#include <string>

#include "plimsoll/decoder_config.h"
#include "plimsoll/dtype.h"
#include "plimsoll/fmri_autoencoder.h"
#include "plimsoll/gesture_ssm.h"
#include "plimsoll/mamba.h"
#include "plimsoll/prompt_segmentation.h"
#include "plimsoll/video_llm.h"

namespace plimsoll {

/// Section `model` of a job file: the type, the configuration of that type, and the files that weights come from.
struct ModelConfig {
  std::string type = "decoder";  ///< decoder | mamba | fmri_autoencoder | gesture_ssm | prompt_segmentation | video_llm
  std::optional<DType> dtype;    ///< of the weights: float32 | bfloat16 | float16; empty: as the precision has it
  std::filesystem::path weights;  ///< a file or folder of weights to start from; empty: weights at random
  std::filesystem::path config;   ///< decoder, mamba: a config.json that says the architecture; empty: beside weights
  /// The same for a part: the language model of prompt_segmentation and video_llm, the frames' encoder of video_llm.
  std::filesystem::path llm_weights, llm_config, vision_weights, vision_config;
  DecoderConfig decoder;
  MambaConfig mamba;
  FmriAutoencoderConfig fmri;
  GestureSsmConfig gesture;
  PromptSegmentationConfig segmentation;
  VideoLlmConfig video_llm;
};

}  // namespace plimsoll
