// Declares the architecture and the tensors of a decoder in a GGUF file, and what the reader does with each key of the
// metadata.
#pragma once

#include <filesystem>
#include <memory>

#include "files/file_kind.h"
#include "weights/families.h"
#include "weights/source.h"

namespace plimsoll::weights {

/// Opens the file. Quantized tensors are dequantized to float32 as they are read.
std::unique_ptr<Source> open_gguf_source(const std::filesystem::path& path);

/// Returns the architecture of its metadata; `family` is "gguf". Throws UserError (failure) if it is no model of the
/// architecture "llama", or a size is missing or out of bounds. A key of the architecture that changes the model in a
/// way that is not computed, or that is not known, is refused by name (gguf::kFacts).
Architecture read_gguf_architecture(const std::filesystem::path& path);

}  // namespace plimsoll::weights

namespace plimsoll::weights::gguf {

inline constexpr std::string_view kApplied = kTreatments[0], kRefused = kTreatments[1], kIgnored = kTreatments[2];
inline constexpr std::string_view kFormat = "GGUF (llama)";
inline constexpr std::string_view kScaled = "rotary frequencies are not scaled";
inline constexpr std::string_view kExperts = "a layer has one feed-forward network";
inline constexpr std::string_view kUnscaled = "only scaled rotary frequencies have it";

/// The treatment of each key of the metadata. A field that ends in * is for all keys that begin so and are in no
/// earlier row.
inline constexpr FileFact kFacts[] = {
    {kFormat, "general.architecture", kApplied, "llama"},
    {kFormat, "general.type", kRefused, "unless model"},
    {kFormat, "general.alignment", kApplied, "alignment of the data of tensors"},
    {kFormat, "general.*", kIgnored, "what the model is called, and how it was quantized"},
    {kFormat, "split.count", kRefused, "unless 1: one of several files is not a model"},
    {kFormat, "split.*", kIgnored, "with split.count 1"},
    {kFormat, "tokenizer.*", kIgnored, "data.tokenizer: gguf reads it"},
    {kFormat, "quantize.*", kIgnored, "how the model was quantized"},
    {kFormat, "llama.vocab_size", kApplied, "must be the rows of token_embd.weight"},
    {kFormat, "llama.embedding_length", kApplied, "width of the residual stream"},
    {kFormat, "llama.block_count", kApplied, "number of layers"},
    {kFormat, "llama.feed_forward_length", kApplied, "width of the feed-forward"},
    {kFormat, "llama.attention.head_count", kApplied, "number of heads"},
    {kFormat, "llama.attention.head_count_kv", kApplied, "number of key and value heads"},
    {kFormat, "llama.attention.key_length", kApplied, "width of a head"},
    {kFormat, "llama.attention.value_length", kApplied, "must be that of keys"},
    {kFormat, "llama.attention.layer_norm_rms_epsilon", kApplied, "value added to the variance in norms"},
    {kFormat, "llama.rope.dimension_count", kApplied, "must be the width of a head"},
    {kFormat, "llama.rope.freq_base", kApplied, "base of the rotary frequencies"},
    {kFormat, "llama.context_length", kIgnored, "rotary positions have no limit"},
    {kFormat,
     "llama.rope.scaling.type, llama.rope.scaling.factor, llama.rope.scaling.attn_factor, llama.rope.scale_linear",
     kRefused, kScaled},
    {kFormat, "llama.rope.scaling.original_context_length, llama.rope.scaling.finetuned", kIgnored, kUnscaled},
    {kFormat, "llama.attention.causal", kRefused, "tokens attend to what is before them only"},
    {kFormat, "llama.attention.sliding_window", kRefused, "llama.cpp has no such window in this architecture"},
    {kFormat, "llama.use_parallel_residual", kRefused, "attention comes before the feed-forward"},
    {kFormat, "llama.expert_count, llama.expert_used_count", kRefused, kExperts},
    {kFormat, "llama.tensor_data_layout", kRefused, "the known layout is that of llama.cpp's converters"},
};
static_assert(are_complete(kFacts));

}  // namespace plimsoll::weights::gguf
