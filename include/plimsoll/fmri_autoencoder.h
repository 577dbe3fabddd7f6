// The configuration of `model.type: fmri_autoencoder`: video, audio and text to brain activity and back.
#pragma once

#include <cstdint>

namespace plimsoll {

/// Pre-norm transformer blocks without a causal mask: an encoder and a decoder of one modality.
struct ModalityConfig {
  int64_t width = 64;         ///< of the tokens
  int64_t depth = 2;          ///< blocks of the encoder
  int64_t decoder_depth = 1;  ///< blocks of the decoder
  int64_t num_heads = 4;      ///< divides width
};

/// Residual feed-forward blocks, 4 x `width` inside.
struct ResidualConfig {
  int64_t width = 128;
  int64_t depth = 2;          ///< blocks of the encoder, or of the fusion
  int64_t decoder_depth = 2;  ///< blocks of the decoder
};

/// What each part of the loss, a mean of squares in float32, counts for; 0 leaves out the part and what only it needs.
struct FmriLossConfig {
  double fmri = 1.0;       ///< voxels from stimuli
  double video = 0.25;     ///< frames from voxels
  double audio = 0.25;     ///< mel frames from voxels
  double text = 0.25;      ///< text embeddings from voxels
  double agreement = 0.1;  ///< the stimuli's bottleneck and the voxels'
};

/// Sizes and loss weights of an fMRI autoencoder.
struct FmriAutoencoderConfig {
  int64_t bottleneck_dim = 64;
  int64_t voxels = 512;
  int64_t video_frames = 4;    ///< of a sample
  int64_t video_size = 32;     ///< height and width of a frame, three channels
  int64_t video_patch = 8;     ///< height and width of a patch: a token; divides video_size
  int64_t audio_frames = 16;   ///< mel frames of a sample
  int64_t audio_mels = 32;     ///< mel bands
  int64_t audio_patch = 2;     ///< mel frames of a token; divides audio_frames
  int64_t text_tokens = 8;     ///< text embeddings of a sample
  int64_t text_features = 64;  ///< width of a text embedding
  ModalityConfig video, audio, text;
  ResidualConfig fusion{.width = 128, .depth = 1, .decoder_depth = 0};
  ResidualConfig fmri;
  FmriLossConfig loss;
  double dropout = 0;  ///< [0, 1): on what every block adds
  double norm_eps = 1e-5;
};

}  // namespace plimsoll
