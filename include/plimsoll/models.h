// Models that a job file can name: their configurations, and their steps.
#pragma once

#include <array>
#include <cstdint>
#include <filesystem>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "plimsoll/trace.h"

namespace plimsoll {

/// Rotary frequencies stretched for longer texts than a model began with, as Llama 3.1 has it: those whose wavelength
/// is above original_length / low_frequency_factor turn `factor` times slower, those below original_length /
/// high_frequency_factor as they did, and in between the two are mixed.
struct RopeScaling {
  double factor = 1;  ///< at least 1; 1: none
  double low_frequency_factor = 1;
  double high_frequency_factor = 4;  ///< above low_frequency_factor
  int64_t original_length = 8192;    ///< tokens of the texts that it began with
};

/// Decoder-only transformer (`model.type: decoder`).
struct DecoderConfig {
  int64_t vocab_size = 0;     ///< rows of the embedding; 0 (`auto`): the tokenizer's, rounded up to 64
  int64_t hidden_size = 256;  ///< width of the residual stream
  int64_t num_layers = 4;
  int64_t num_heads = 4;
  int64_t num_kv_heads = 0;           ///< 0: as many as num_heads; otherwise it divides num_heads (GQA)
  int64_t head_dim = 0;               ///< 0: hidden_size / num_heads; even where positions are "rope"
  int64_t intermediate_size = 0;      ///< 0: 4 x hidden_size (gelu), 8/3 x hidden_size rounded up to 64 (gated)
  std::string norm = "rmsnorm";       ///< rmsnorm | layernorm
  std::string positions = "rope";     ///< rope | learned
  int64_t max_positions = 0;          ///< learned: rows of their embedding; 0: as many as a window has tokens
  std::string activation = "swiglu";  ///< swiglu | geglu (gated, gelu's tanh form) | gelu | gelu_tanh
  bool tie_embeddings = true;         ///< the head uses the embedding's weight
  bool attention_bias = false;        ///< biases on the query, key, value and output projections
  bool qkv_bias = false;              ///< biases on the query, key and value projections (Qwen 2)
  bool mlp_bias = false;              ///< biases on the feed-forward projections
  bool qk_norm = false;               ///< queries and keys of each head are normalised (RMSNorm, Qwen 3)
  bool post_norms = false;       ///< attention and feed-forward are normalised again before they are added (Gemma 2)
  bool embedding_scale = false;  ///< embeddings are multiplied by sqrt(hidden_size) (Gemma)
  double query_scale = 0;        ///< scores are divided by its square root; 0: head_dim
  double attention_softcap = 0;  ///< c: scores become c tanh(score / c) (Gemma 2); 0: as they are
  double logit_softcap = 0;      ///< likewise the logits
  int64_t sliding_window = 0;    ///< positions that a token looks back on, itself included; 0: all
  int64_t sliding_window_every = 1;  ///< n: in the first of every n layers; the others look back on all
  double dropout = 0.0;              ///< [0, 1): on attention output and feed-forward output
  double norm_eps = 1e-5;
  double rope_theta = 10000.0;
  RopeScaling rope_scaling;
};

/// Mamba-2 (T. Dao and A. Gu 2024): embedding, layers of x + mixer(norm(x)), a norm and the head.
struct MambaConfig {
  int64_t vocab_size = 0;     ///< rows of the embedding; 0 (`auto`): the tokenizer's, rounded up to 64
  int64_t hidden_size = 256;  ///< width of the residual stream
  int64_t num_layers = 4;
  int64_t state_size = 128;      ///< numbers that each channel of the scan remembers
  int64_t expand = 2;            ///< the scan's width, in hidden_size
  int64_t head_dim = 64;         ///< channels of a head, which share their decay; divides expand x hidden_size
  int64_t num_groups = 1;        ///< of heads that share B and C, and channels that the gated norm takes together
  int64_t conv_width = 4;        ///< taps of the convolution before the scan: 1 to 4
  bool conv_bias = true;         ///< on that convolution
  bool projection_bias = false;  ///< on the mixer's projections in and out
  int64_t chunk_size = 128;      ///< tokens that the scan takes at a time; of no effect on results but their rounding
  /// Bounds of the steps of the scan.
  double least_step = 0, most_step = std::numeric_limits<double>::infinity();
  bool tie_embeddings = true;  ///< the head uses the embedding's weight
  double norm_eps = 1e-5;
};

/// Sizes of a gesture classifier.
struct GestureSsmConfig {
  int64_t channels = 6;     ///< numbers of a vector, beside its time
  int64_t num_classes = 4;  ///< of gestures
  int64_t hidden_dim = 256;
  int64_t num_layers = 6;
  int64_t d_state = 128;     ///< numbers that each channel of the scan remembers
  int64_t expand = 2;        ///< the scan's width, in hidden_dim
  int64_t head_dim = 64;     ///< channels of a head of the scan, which share their decay; divides expand x hidden_dim
  int64_t conv_width = 4;    ///< taps of the convolution before the scan: 1 to 4
  int64_t chunk_size = 128;  ///< vectors that the scan takes at a time; of no effect on results but their rounding
  /// "false": a mixer for each direction of each layer. "bidirectional": one a layer, for both directions. "true": one
  /// mixer for all layers and directions; norms stay each layer's own.
  std::string share_weights = "false";
  /// Layers are dealt out evenly to one stage more than there are factors; between stages so many tokens at a time give
  /// way to their mean. The head sees the mean of each stage's output.
  std::vector<int64_t> pooling_scales;
  std::optional<bool> use_checkpoint;  ///< as it was given; the job's gradient_checkpointing is what counts
  double dropout = 0;                  ///< [0, 1): on what every layer adds
  double norm_eps = 1e-5;
};

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

/// Weights of the parts of the loss; 0 leaves a part out.
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
  /// Mean and standard deviation of red, green and blue in [0, 1]. The encoder sees (color - mean) / std.
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

/// Weights of the parts of the loss, each a mean of squares in float32. 0 leaves out a part and all that only it needs.
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

/// Section `model` of a job file: the type, the configuration of that type, and the files that weights come from.
struct ModelConfig {
  std::string type = "decoder";  ///< decoder | mamba | fmri_autoencoder | gesture_ssm | prompt_segmentation | video_llm
  std::optional<DType> dtype;    ///< of the weights: float32 | bfloat16 | float16; empty: as the precision has it
  std::filesystem::path weights;  ///< a file or folder of weights to start from; empty: weights at random
  std::filesystem::path config;   ///< decoder, mamba: a config.json that says the architecture; empty: beside weights
  /// Weights and config.json of a part: the language model of prompt_segmentation and video_llm, the frames' encoder of
  /// video_llm.
  std::filesystem::path llm_weights, llm_config, vision_weights, vision_config;
  DecoderConfig decoder;
  MambaConfig mamba;
  FmriAutoencoderConfig fmri;
  GestureSsmConfig gesture;
  PromptSegmentationConfig segmentation;
  VideoLlmConfig video_llm;
};

struct Step;  // plimsoll/training.h

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
