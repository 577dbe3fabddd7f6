// Declares a model from a prompt and an image to a mask. A language model reads the prompt, an image encoder reads
// the image, and a mask decoder, declared here too, combines both (LISA, Lai et al. 2023; LLaVA, Liu et al. 2023;
// SAM, Kirillov et al. 2023).
//
//     image -> encoder -> features of 1/4 and 1/16 ─────────────┬─> mask decoder -> logits -> bilinear -> mask
//                           └─ (image_projection) ─> llm ─> prompt_projection ─┘
//     prompt -> embedding ─────────────────────────┘
#pragma once

#include <torch/nn/module.h>
#include <torch/nn/modules/container/modulelist.h>

#include "models/decoder.h"
#include "models/image_encoder.h"
#include "models/layers.h"
#include "models/tiny_vit.h"
#include "plimsoll/linear.h"
#include "plimsoll/models.h"

namespace plimsoll::model {

/// Attention of one set of tokens to another, at `inner` channels.
class CrossAttentionImpl : public torch::nn::Module {
 public:
  CrossAttentionImpl(int64_t width, int64_t inner, int64_t num_heads);
  /// Maps q [B, T, width], k and v [B, S, width] to [B, T, width].
  at::Tensor forward(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v);

 private:
  int64_t heads_;
  Linear q_{nullptr}, k_{nullptr}, v_{nullptr}, out_{nullptr};
};
TORCH_MODULE(CrossAttention);

/// A block of attention among tokens, attention from tokens to image, a feed-forward network of the tokens, and
/// attention from image to tokens; a norm follows each.
class TwoWayBlockImpl : public torch::nn::Module {
 public:
  explicit TwoWayBlockImpl(const MaskDecoderConfig& config);
  /// Replaces tokens [B, T, width] and image [B, N, width]. `queries` are the tokens before the first block, and
  /// `positions` [N, width] are the positions of the image's tokens: they are added to queries and keys.
  void forward(at::Tensor& tokens, at::Tensor& image, const at::Tensor& queries, const at::Tensor& positions);

 private:
  CrossAttention among_{nullptr}, to_image_{nullptr}, from_image_{nullptr};
  Norm among_norm_{nullptr}, to_image_norm_{nullptr}, mlp_norm_{nullptr}, from_image_norm_{nullptr};
  Linear up_{nullptr}, down_{nullptr};
};
TORCH_MODULE(TwoWayBlock);

/// A transposed convolution of kernel and stride 2, [B, H, W, in] -> [B, 2 H, 2 W, out]: a linear layer whose results
/// are the four pixels.
class UpscaleImpl : public torch::nn::Module {
 public:
  UpscaleImpl(int64_t in, int64_t out);
  at::Tensor forward(const at::Tensor& x);

 private:
  int64_t out_;
  Linear pixels_{nullptr};
};
TORCH_MODULE(Upscale);

/// The decoder from image features and prompt tokens to a mask, as in SAM (Kirillov et al. 2023, "Segment Anything",
/// appendix A). As in HQ-SAM (Ke et al. 2023, "Segment Anything in High Quality"), features of the encoder's first
/// stage are added to the upscaled ones: features of 1/16 alone do not show the edges of small objects.
class MaskDecoderImpl : public torch::nn::Module {
 public:
  /// The coarse features have `side` tokens a side and config.width channels; the fine features have `fine_width`
  /// channels.
  MaskDecoderImpl(const MaskDecoderConfig& config, int64_t side, int64_t fine_width);
  /// Maps features and prompt [B, T, width] to logits [B, 4 side, 4 side].
  at::Tensor forward(const ImageFeatures& features, const at::Tensor& prompt);

 private:
  at::Tensor mask_token_, positions_;
  torch::nn::ModuleList blocks_{nullptr};
  CrossAttention last_{nullptr};
  Norm last_norm_{nullptr}, upscale_norm_{nullptr};
  Upscale upscale_{nullptr}, upscale_last_{nullptr};
  Linear fine_{nullptr};
  Linear filter_first_{nullptr}, filter_{nullptr}, filter_last_{nullptr};
};
TORCH_MODULE(MaskDecoder);

/// A projection of two linear layers with a GELU between them.
class ProjectionImpl : public torch::nn::Module {
 public:
  ProjectionImpl(int64_t in, int64_t out);
  at::Tensor forward(const at::Tensor& x);  ///< [..., in] -> [..., out]

 private:
  Linear first_{nullptr}, last_{nullptr};
};
TORCH_MODULE(Projection);

/// A forward pass's results.
struct Segmented {
  at::Tensor logits;  ///< float32 [B, S, S]
  at::Tensor hidden;  ///< states of the prompt's tokens, [B, L, llm.hidden_size]
};

class PromptSegmentationImpl : public torch::nn::Module {
 public:
  explicit PromptSegmentationImpl(const PromptSegmentationConfig& config);

  /// Runs the model on image [B, S, S, channels] and tokens int64 [B, L]. read_at [B, L] has the weight of each token's
  /// state in the prompt's token.
  Segmented forward(const at::Tensor& image, const at::Tensor& tokens, const at::Tensor& read_at);

  /// Returns the weighted loss of the samples whose `counted` [B] is 1, a float32 scalar; mask is uint8 [B, S, S],
  /// targets are int64 [B, L].
  at::Tensor loss_of(const Segmented& got, const at::Tensor& mask, const at::Tensor& targets,
                     const at::Tensor& counted);

 private:
  PromptSegmentationConfig config_;
  ImageEncoder encoder_{nullptr};  // either this or tiny_vit_
  TinyVit tiny_vit_{nullptr};
  Projection image_projection_{nullptr}, prompt_projection_{nullptr};
  Decoder llm_{nullptr};
  Norm prompt_norm_{nullptr};
  MaskDecoder mask_decoder_{nullptr};
};
TORCH_MODULE(PromptSegmentation);

}  // namespace plimsoll::model
