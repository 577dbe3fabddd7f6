// Models that a job file can name, as steps.
#pragma once

#include "plimsoll/decoder_config.h"
#include "plimsoll/fmri_autoencoder.h"
#include "plimsoll/gesture_ssm.h"
#include "plimsoll/mamba.h"
#include "plimsoll/prompt_segmentation.h"
#include "plimsoll/step.h"
#include "plimsoll/video_llm.h"

namespace plimsoll {

/// A decoder-only transformer with the loss of next-token prediction. Inputs: "tokens" and "targets", int64
/// [micro_batch_size, sequence_length]; targets of -100 are ignored. `config.vocab_size` must be set.
/// Throws UserError for a configuration that does not divide.
Step decoder_step(const DecoderConfig& config, int64_t micro_batch_size, int64_t sequence_length);

/// A language model of Mamba-2 layers; inputs and loss as decoder_step has them. `config.vocab_size` must be set.
/// Throws UserError for a configuration that does not divide.
Step mamba_step(const MambaConfig& config, int64_t micro_batch_size, int64_t sequence_length);

/// Video, audio and text to fMRI voxels and back, over one bottleneck. Inputs, float32, B samples: "frames" [B,
/// video_frames, 3, video_size, video_size], "mel" [B, audio_frames, audio_mels], "words" [B, text_tokens,
/// text_features], "voxels" [B, voxels], "counted" [B]. The loss is computed in float32 whatever the precision.
/// Metrics of an evaluation: "correlation", Pearson's between a voxel's predicted and measured values over the samples,
/// mean over the voxels; "fmri_loss", "video_loss", ...: the parts of the loss that have a weight, unweighted.
/// Throws UserError for a configuration that does not divide, or a loss whose parts are all left out.
Step fmri_autoencoder_step(const FmriAutoencoderConfig& config, int64_t micro_batch_size);

/// A classifier of point sequences by bidirectional state-space layers (Mamba2). Inputs, B samples of `vectors`
/// vectors: "vectors", float32 [B, vectors, config.channels + 1], "labels", int64 [B], and "counted". The loss is
/// computed in float32 whatever the precision; the metric is "accuracy". Throws UserError for a configuration that does
/// not divide.
Step gesture_ssm_step(const GestureSsmConfig& config, int64_t micro_batch_size, int64_t vectors);

/// An image and a prompt to a mask, B samples of image_size S and prompt_length L. Inputs: "image" float32 [B, S, S,
/// channels]; "tokens" and "targets" int64 [B, L], the targets -100 where no answer is to be learned; "read_at" float32
/// [B, L], what the language model's state at each token counts for in what asks for the mask; "mask" uint8 [B, S, S];
/// kCounted. Metric "dice": of the masks where they are likelier than not, the mean over samples. The loss is computed
/// in float32 whatever the precision. `config.llm.vocab_size` must be set. Throws UserError for a configuration that
/// does not divide, or a loss whose parts are all left out.
Step prompt_segmentation_step(const PromptSegmentationConfig& config, int64_t micro_batch_size);

/// Video frames into a language model that goes on with a caption. Inputs of B clips: "frames", float32 [B, frames, 3,
/// image_size, image_size], "tokens" and "targets", int64 [B, text_tokens] (targets of -100 are not learned), and
/// kCounted. The loss: nats of the captions' tokens over B x text_tokens, the same however a batch is cut into micro
/// batches. Metrics: captions_right (what greedy decoding writes is the caption, word for word), caption_tokens_right,
/// caption_loss (nats a token). `config.llm.vocab_size` must be set. Throws UserError for what does not divide.
Step video_llm_step(const VideoLlmConfig& config, int64_t frames, int64_t text_tokens, int64_t micro_batch_size);

}  // namespace plimsoll
