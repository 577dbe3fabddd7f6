// Declares a model from a prompt and an image to a mask. A language model reads the prompt, an image encoder reads the
// image, and a mask decoder combines both (LISA, Lai et al. 2023; LLaVA, Liu et al. 2023; SAM, Kirillov et al. 2023).
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
