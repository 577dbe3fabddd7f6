// Declares the smallest models of the systems, for tests that train them.
#pragma once

#include "data/series/stimuli_files.h"
#include "plimsoll/job.h"

namespace plimsoll {

/// Returns an autoencoder of the scans and stimuli of StimuliFiles.
inline ModelConfig tiny_fmri_autoencoder() {
  ModelConfig model;
  model.type = "fmri_autoencoder";
  FmriAutoencoderConfig& fmri = model.fmri;
  fmri.voxels = StimuliFiles::kVoxels;
  fmri.text_features = StimuliFiles::kFeatures;
  fmri.text_tokens = 3;
  fmri.video_frames = 2;
  fmri.video_size = 8;
  fmri.audio_frames = 4;
  fmri.audio_mels = 5;
  fmri.video = fmri.audio = fmri.text = {.width = 16, .depth = 1, .decoder_depth = 1, .num_heads = 2};
  fmri.fusion.width = fmri.fmri.width = 32;
  fmri.fmri.depth = fmri.fmri.decoder_depth = 1;
  fmri.bottleneck_dim = 16;
  return model;
}

/// Returns a model of pictures of 32 x 32 with the compact encoder.
inline ModelConfig tiny_prompt_segmentation() {
  ModelConfig model;
  model.type = "prompt_segmentation";
  PromptSegmentationConfig& segmentation = model.segmentation;
  segmentation.image_size = 32;
  segmentation.encoder.widths = {8, 12, 16, 16};
  segmentation.encoder.depths = {1, 1, 1, 1};
  segmentation.encoder.num_heads = {2, 2, 2};
  segmentation.encoder.windows = {4, 2, 2};
  segmentation.encoder.expansion = 2;
  segmentation.llm.hidden_size = 24;
  segmentation.llm.num_layers = 1;
  segmentation.llm.num_heads = 2;
  segmentation.decoder = {.width = 16, .depth = 1, .num_heads = 2, .intermediate_size = 32};
  return model;
}

}  // namespace plimsoll
