// Declares the models that a job file can name: their configurations and their training steps.
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

/// A change of rotary frequencies for texts longer than those a model was first trained on, as in Llama 3.1.
/// Frequencies with a wavelength above original_length / low_frequency_factor become `factor` times lower. Those below
/// original_length / high_frequency_factor stay; those between are interpolated.
struct RopeScaling {
  double factor = 1;  ///< at least 1; 1: no change
  double low_frequency_factor = 1;
  double high_frequency_factor = 4;  ///< above low_frequency_factor
  int64_t original_length = 8192;    ///< tokens of the texts that the model was first trained on
};

/// A decoder-only transformer (`model.type: decoder`).
struct DecoderConfig {
  int64_t vocab_size = 0;     ///< rows of the embedding; 0 (`auto`): the tokenizer's, rounded up to 64
  int64_t hidden_size = 256;  ///< width of the residual stream
  int64_t num_layers = 4;
  int64_t num_heads = 4;
  int64_t num_kv_heads = 0;           ///< 0: the same as num_heads; otherwise a divisor of num_heads (GQA)
  int64_t head_dim = 0;               ///< 0: hidden_size / num_heads; an even number if positions are "rope"
  int64_t intermediate_size = 0;      ///< 0: 4 x hidden_size (gelu), 8/3 x hidden_size rounded up to 64 (gated)
  std::string norm = "rmsnorm";       ///< rmsnorm | layernorm
  std::string positions = "rope";     ///< rope | learned
  int64_t max_positions = 0;          ///< learned: rows of the position embedding; 0: tokens of a window
  std::string activation = "swiglu";  ///< swiglu | geglu (gated, gelu's tanh form) | gelu | gelu_tanh
  bool tie_embeddings = true;         ///< the head uses the embedding's weight
  bool attention_bias = false;        ///< biases on the query, key, value and output projections
  bool qkv_bias = false;              ///< biases on the query, key and value projections (Qwen 2)
  bool mlp_bias = false;              ///< biases on the feed-forward projections
  bool qk_norm = false;               ///< queries and keys of each head are normalized (RMSNorm, Qwen 3)
  bool post_norms = false;  ///< attention and feed-forward outputs are normalized again before they are added (Gemma 2)
  bool embedding_scale = false;  ///< embeddings are multiplied by sqrt(hidden_size) (Gemma)
  double query_scale = 0;        ///< scores are divided by its square root; 0: by that of head_dim
  double attention_softcap = 0;  ///< c: scores become c tanh(score / c) (Gemma 2); 0: scores stay as they are
  double logit_softcap = 0;      ///< c: logits become c tanh(logit / c); 0: logits stay as they are
  int64_t sliding_window = 0;    ///< positions that a token attends to, itself included; 0: all
  /// n: only the first of every n layers has the window; the others attend to all positions.
  int64_t sliding_window_every = 1;
  double dropout = 0.0;  ///< [0, 1): on attention output and feed-forward output
  double norm_eps = 1e-5;
  double rope_theta = 10000.0;
  RopeScaling rope_scaling;
};

/// A Mamba-2 model (T. Dao and A. Gu 2024): embedding, layers of x + mixer(norm(x)), a norm and the head.
struct MambaConfig {
  int64_t vocab_size = 0;     ///< rows of the embedding; 0 (`auto`): the tokenizer's, rounded up to 64
  int64_t hidden_size = 256;  ///< width of the residual stream
  int64_t num_layers = 4;
  int64_t state_size = 128;      ///< state values of each channel of the scan
  int64_t expand = 2;            ///< width of the scan, in multiples of hidden_size
  int64_t head_dim = 64;         ///< channels of a head, which share one decay; divides expand x hidden_size
  int64_t num_groups = 1;        ///< groups of heads that share B and C; also groups of channels in the gated norm
  int64_t conv_width = 4;        ///< taps of the convolution before the scan: 1 to 4
  bool conv_bias = true;         ///< bias on the convolution before the scan
  bool projection_bias = false;  ///< biases on the mixer's projections in and out
  int64_t chunk_size = 128;      ///< tokens of one chunk of the scan; it affects only the rounding of results
  /// Bounds of the steps of the scan.
  double min_step = 0, max_step = std::numeric_limits<double>::infinity();
  bool tie_embeddings = true;  ///< the head uses the embedding's weight
  double norm_eps = 1e-5;
};

/// A gesture classifier's sizes.
struct GestureSsmConfig {
  int64_t channels = 6;     ///< values of a vector, without its time
  int64_t num_classes = 4;  ///< number of gestures
  int64_t hidden_dim = 256;
  int64_t num_layers = 6;
  int64_t d_state = 128;     ///< state values of each channel of the scan
  int64_t expand = 2;        ///< width of the scan, in multiples of hidden_dim
  int64_t head_dim = 64;     ///< channels of a head of the scan, which share one decay; divides expand x hidden_dim
  int64_t conv_width = 4;    ///< taps of the convolution before the scan: 1 to 4
  int64_t chunk_size = 128;  ///< vectors of one chunk of the scan; it affects only the rounding of results
  /// Sharing of mixers. "false": one for each direction of each layer. "bidirectional": one for each layer, for both
  /// directions. "true": one for all layers and directions; each layer keeps its own norms.
  std::string share_weights = "false";
  /// Factors of pooling between stages. Layers are spread evenly over one stage more than there are factors. Between
  /// two stages, every `factor` neighboring tokens are replaced by their mean. The head reads the mean of each stage's
  /// output.
  std::vector<int64_t> pooling_scales;
  std::optional<bool> use_checkpoint;  ///< the file's value; the job's gradient_checkpointing decides
  double dropout = 0;                  ///< [0, 1): on the output that every layer adds
  double norm_eps = 1e-5;
};

/// A hierarchical image encoder in four stages, at 1/4, 1/8, 1/16 and 1/16 of the image. The first stage has inverted
/// bottlenecks, the other three attention within windows (Wu et al. 2022, "TinyViT", as in MobileSAM and TinySAM).
struct ImageEncoderConfig {
  /// compact: RMSNorm and no biases (models/image_encoder.h); tiny_vit: as published, to start from published weights.
  std::string type = "compact";
  std::array<int64_t, 4> widths = {16, 32, 48, 64};
  std::array<int64_t, 4> depths = {1, 1, 2, 1};  ///< blocks of each stage
  std::array<int64_t, 3> num_heads = {2, 3, 4};  ///< heads of the last three stages; each divides the stage's width
  /// Height and width in tokens of the windows of the last three stages; maps are padded to a multiple.
  std::array<int64_t, 3> windows = {4, 4, 4};
  int64_t expansion = 4;  ///< width inside a block, in multiples of its stage's width
};

/// A mask decoder: cross-attention in both directions between prompt and image, then a mask (Kirillov et al. 2023,
/// "Segment Anything").
struct MaskDecoderConfig {
  int64_t width = 32;  ///< width of image features and prompt tokens; a multiple of 8
  int64_t depth = 2;   ///< two-way blocks
  int64_t num_heads = 2;
  int64_t intermediate_size = 64;  ///< width inside the prompt tokens' feed-forward
};

/// A weight for each part of the loss; 0 omits the part.
struct SegmentationLossConfig {
  double bce = 1;   ///< binary cross entropy, mean over pixels
  double dice = 1;  ///< 1 - Dice of the probabilities
  double text = 0;  ///< next-token loss of the answer, in nats an answer
};

/// A configuration of a model that segments an image by a prompt.
struct PromptSegmentationConfig {
  int64_t image_size = 64;     ///< height and width of the image and of the mask; a multiple of 16
  int64_t channels = 1;        ///< channels of the image
  int64_t prompt_length = 32;  ///< tokens that the language model reads, answer included
  /// Image features that the language model reads before the prompt (LLaVA): a square number; 0: none.
  int64_t image_tokens = 0;
  ImageEncoderConfig encoder;
  DecoderConfig llm;  ///< reads the prompt
  MaskDecoderConfig decoder;
  SegmentationLossConfig loss;
};

/// An encoder of video frames: a vision transformer (Dosovitskiy et al. 2021) of pre-norm blocks. Differences between
/// ViT, CLIP and SigLIP are settings (weights/vision_families.h).
struct VisionConfig {
  int64_t patch = 16;  ///< height and width of a patch, which becomes one token; divides image_size
  int64_t width = 192;
  int64_t depth = 4;                ///< blocks
  int64_t num_heads = 4;            ///< divides width
  int64_t intermediate_size = 0;    ///< width of the feed-forward; 0: 4 x width
  std::string norm = "rmsnorm";     ///< rmsnorm | layernorm
  double norm_eps = 1e-6;           ///< added to the variance
  std::string activation = "gelu";  ///< gelu | gelu_tanh | quick_gelu: x sigmoid(1.702 x)
  bool bias = false;                ///< biases on the projections of attention and feed-forward
  bool patch_bias = true;           ///< bias on the projection of patches
  bool class_token = false;         ///< a class token before the patches; averages over tokens exclude it
  bool pre_norm = false;            ///< a norm before the first block
  bool final_norm = true;           ///< a norm after the last block
  bool cropped = false;             ///< pixels at the right and bottom edges that do not fill a patch are ignored
  /// Mean and standard deviation of red, green and blue in [0, 1]. The encoder sees (color - mean) / std.
  std::array<double, 3> image_mean = {0.5, 0.5, 0.5}, image_std = {0.5, 0.5, 0.5};
};

/// A configuration of a model that reads video frames into a language model.
struct VideoLlmConfig {
  int64_t image_size = 224;      ///< height and width of a frame
  int64_t tokens_per_frame = 4;  ///< tokens of a frame that the language model reads: a square number, the cells of a
                                 ///< grid over which patches are averaged
  VisionConfig vision;
  DecoderConfig llm;
  std::optional<DType> llm_dtype;  ///< weight dtype of the language model; empty: the model's
  bool llm_checkpointing = false;  ///< activation checkpointing of the language model alone
};

/// A configuration of pre-norm transformer blocks without a causal mask: encoder and decoder of one modality.
struct ModalityConfig {
  int64_t width = 64;         ///< width of the tokens
  int64_t depth = 2;          ///< blocks of the encoder
  int64_t decoder_depth = 1;  ///< blocks of the decoder
  int64_t num_heads = 4;      ///< divides width
};

/// A configuration of residual feed-forward blocks with inner width 4 x `width`.
struct ResidualConfig {
  int64_t width = 128;
  int64_t depth = 2;          ///< blocks of the encoder, or of the fusion
  int64_t decoder_depth = 2;  ///< blocks of the decoder
};

/// A weight for each part of the loss, a mean of squares in float32. 0 omits the part and everything that only it
/// needs.
struct FmriLossConfig {
  double fmri = 1.0;       ///< predicted voxels, from stimuli
  double video = 0.25;     ///< predicted frames, from voxels
  double audio = 0.25;     ///< predicted mel frames, from voxels
  double text = 0.25;      ///< predicted text embeddings, from voxels
  double agreement = 0.1;  ///< difference between the bottlenecks of stimuli and of voxels
};

/// A configuration of an fMRI autoencoder.
struct FmriAutoencoderConfig {
  int64_t bottleneck_dim = 64;
  int64_t voxels = 512;
  int64_t video_frames = 4;    ///< frames in a sample
  int64_t video_size = 32;     ///< height and width of a frame, three channels
  int64_t video_patch = 8;     ///< height and width of a patch, which becomes one token; divides video_size
  int64_t audio_frames = 16;   ///< mel frames in a sample
  int64_t audio_mels = 32;     ///< mel bands
  int64_t audio_patch = 2;     ///< mel frames in a token; divides audio_frames
  int64_t text_tokens = 8;     ///< text embeddings in a sample
  int64_t text_features = 64;  ///< width of a text embedding
  ModalityConfig video, audio, text;
  ResidualConfig fusion{.width = 128, .depth = 1, .decoder_depth = 0};
  ResidualConfig fmri;
  FmriLossConfig loss;
  double dropout = 0;  ///< [0, 1): on the output that every block adds
  double norm_eps = 1e-5;
};

/// Section `model` of a job file: the type, the configuration of that type, and the files with initial weights.
struct ModelConfig {
  std::string type = "decoder";  ///< decoder | mamba | fmri_autoencoder | gesture_ssm | prompt_segmentation | video_llm
  std::filesystem::path weights;  ///< file or folder with initial weights; empty: random weights
  /// decoder, mamba: a config.json with the architecture; empty: the one next to the weights.
  std::filesystem::path config;
  /// Weights and config.json of a part of the model. llm_: the language model of prompt_segmentation and video_llm;
  /// vision_: the frame encoder of video_llm.
  std::filesystem::path llm_weights, llm_config, vision_weights, vision_config;
  DecoderConfig decoder;
  MambaConfig mamba;
  FmriAutoencoderConfig fmri;
  GestureSsmConfig gesture;
  PromptSegmentationConfig segmentation;
  VideoLlmConfig video_llm;
};

struct Step;  // plimsoll/training.h

/// Returns the step of a decoder-only transformer with the loss of next-token prediction. Inputs: "tokens" and
/// "targets", int64 [micro_batch_size, sequence_length]; targets of -100 are ignored. `config.vocab_size` must be set.
/// Throws UserError for sizes that do not divide each other as required.
Step decoder_step(const DecoderConfig& config, int64_t micro_batch_size, int64_t sequence_length);

/// Returns the step of a language model of Mamba-2 layers, with inputs and loss as in decoder_step().
/// `config.vocab_size` must be set. Throws UserError for sizes that do not divide each other as required.
Step mamba_step(const MambaConfig& config, int64_t micro_batch_size, int64_t sequence_length);

/// Returns the step of a model that maps video, audio and text to fMRI voxels and back, over one bottleneck. Inputs,
/// float32, for B samples: "frames" [B, video_frames, 3, video_size, video_size], "mel" [B, audio_frames, audio_mels],
/// "words" [B, text_tokens, text_features], "voxels" [B, voxels], "counted" [B]. The loss is always computed in
/// float32. Metrics of an evaluation: "correlation", Pearson's between a voxel's predicted and measured values over the
/// samples, mean over the voxels. "fmri_loss", "video_loss", ...: the unweighted parts of the loss whose weight is not
/// 0. Throws UserError for sizes that do not divide each other as required, and for a loss without parts.
Step fmri_autoencoder_step(const FmriAutoencoderConfig& config, int64_t micro_batch_size);

/// Returns the step of a classifier of point sequences by bidirectional state-space layers (Mamba2). Inputs for B
/// samples of `vectors` vectors: "vectors", float32 [B, vectors, config.channels + 1], "labels", int64 [B], and
/// "counted". The loss is always computed in float32; the metric is "accuracy". Throws UserError for sizes that do not
/// divide each other as required.
Step gesture_ssm_step(const GestureSsmConfig& config, int64_t micro_batch_size, int64_t vectors);

/// Returns the step of a model that maps an image and a prompt to a mask, for B samples of image_size S and
/// prompt_length L. Inputs:
///   "image"              float32 [B, S, S, channels]
///   "tokens", "targets"  int64 [B, L]; targets are -100 for tokens outside the answer, which are not learned
///   "read_at"            float32 [B, L]: weight of the language model's state at each token in the query for the mask
///   "mask"               uint8 [B, S, S]
///   kSampleMask
/// Metric "dice": Dice of the masks of pixels with a probability above 1/2, mean over samples. The loss is always
/// computed in float32. `config.llm.vocab_size` must be set. Throws UserError for sizes that do not divide each other
/// as required, and for a loss without parts.
Step prompt_segmentation_step(const PromptSegmentationConfig& config, int64_t micro_batch_size);

/// Returns the step of a model that reads video frames into a language model, which continues with a caption. Inputs
/// for B clips: "frames", float32 [B, frames, 3, image_size, image_size], "tokens" and "targets", int64 [B,
/// text_tokens] (targets of -100 are ignored), and kSampleMask. The loss is the nats of the captions' tokens over B x
/// text_tokens; it does not depend on how a batch is cut into micro batches. Metrics: captions_right (greedy decoding
/// writes the caption word for word), caption_tokens_right, caption_loss (nats a token). `config.llm.vocab_size` must
/// be set. Throws UserError for sizes that do not divide each other as required.
Step video_llm_step(const VideoLlmConfig& config, int64_t frames, int64_t text_tokens, int64_t micro_batch_size);

}  // namespace plimsoll
