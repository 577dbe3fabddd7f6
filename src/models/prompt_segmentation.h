// A prompt and an image to a mask: a language model reads what is asked for, an image encoder what is there, and a mask
// decoder brings both together (LISA, Lai et al. 2023; LLaVA, Liu et al. 2023; SAM, Kirillov et al. 2023).
//
//     image -> encoder -> features of 1/4 and 1/16 ─────────────┬─> mask decoder -> logits -> bilinear -> mask
//                           └─ (image_projection) ─> llm ─> prompt_projection ─┘
//     prompt -> embedding ─────────────────────────┘
#pragma once

#include <torch/nn/module.h>

#include "models/decoder.h"
#include "models/image_encoder.h"
#include "models/mask_decoder.h"
#include "models/tiny_vit.h"
#include "plimsoll/models.h"

namespace plimsoll::model {

/// Two linear layers with a GELU between.
class ProjectionImpl : public torch::nn::Module {
 public:
  ProjectionImpl(int64_t in, int64_t out);
  at::Tensor forward(const at::Tensor& x);  ///< [..., in] -> [..., out]

 private:
  Linear first_{nullptr}, last_{nullptr};
};
TORCH_MODULE(Projection);

/// What a forward pass gives.
struct Segmented {
  at::Tensor logits;  ///< float32 [B, S, S]
  at::Tensor hidden;  ///< of the prompt's tokens [B, L, llm.hidden_size]
};

class PromptSegmentationImpl : public torch::nn::Module {
 public:
  explicit PromptSegmentationImpl(const PromptSegmentationConfig& config);

  /// image [B, S, S, channels], tokens int64 [B, L], read_at [B, L]: the weight of each token's state in
  /// what asks for the mask.
  Segmented forward(const at::Tensor& image, const at::Tensor& tokens, const at::Tensor& read_at);

  /// The weighted loss of samples whose `counted` [B] is 1, a float32 scalar; mask uint8 [B, S, S], targets int64
  /// [B, L].
  at::Tensor loss_of(const Segmented& got, const at::Tensor& mask, const at::Tensor& targets,
                     const at::Tensor& counted);

 private:
  PromptSegmentationConfig config_;
  ImageEncoder encoder_{nullptr};  // or
  TinyVit tiny_vit_{nullptr};
  Projection image_projection_{nullptr}, prompt_projection_{nullptr};
  Decoder llm_{nullptr};
  Norm prompt_norm_{nullptr};
  MaskDecoder mask_decoder_{nullptr};
};
TORCH_MODULE(PromptSegmentation);

}  // namespace plimsoll::model
