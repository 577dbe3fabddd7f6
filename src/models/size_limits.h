// Declares the upper bounds of a model's sizes, for job files and for model files of other programs. No libtorch.
//
// The sizes multiply. With these bounds the bytes of parameters, gradients and optimizer state stay below 2^60.
#pragma once

#include <cstdint>

namespace plimsoll::model {

constexpr int64_t kMaxLayers = int64_t{1} << 12;       ///< layers of a language model
constexpr int64_t kMaxHeads = int64_t{1} << 12;        ///< attention heads of a layer, and groups of a Mamba-2 layer
constexpr int64_t kMaxWidth = int64_t{1} << 18;        ///< hidden_size, head_dim, num_heads x head_dim, a LoRA rank
constexpr int64_t kMaxFeedForward = int64_t{1} << 20;  ///< intermediate_size
constexpr int64_t kMaxVocabulary = int64_t{1} << 24;   ///< vocab_size, in tokens
constexpr int64_t kMaxSequence = int64_t{1} << 20;     ///< tokens or vectors of a sample, of a window or of a chunk

}  // namespace plimsoll::model
