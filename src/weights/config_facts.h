// Declares what the readers of config.json do with each key, for all families. A format names the families that a row
// is for; a row for one family comes before a row of the same key for several. The fields are those of transformers'
// configuration classes (tests/weights/transformers_fields.json), and keys that published files have in addition.
#pragma once

#include "files/file_kind.h"

namespace plimsoll::weights::config {

inline constexpr std::string_view kAll = "config.json";
inline constexpr std::string_view kText = "config.json (llama, mistral, qwen2, qwen3, gemma2, gpt2, mamba2)";
inline constexpr std::string_view kLlamaLike = "config.json (llama, mistral, qwen2, qwen3, gemma2)";
inline constexpr std::string_view kLlama = "config.json (llama)";
inline constexpr std::string_view kLlamaMistral = "config.json (llama, mistral)";
inline constexpr std::string_view kMistral = "config.json (mistral)";
inline constexpr std::string_view kQwen = "config.json (qwen2, qwen3)";
inline constexpr std::string_view kGemma2 = "config.json (gemma2)";
inline constexpr std::string_view kBiased = "config.json (llama, qwen3, gemma2)";
inline constexpr std::string_view kSilu = "config.json (llama, mistral, qwen2, qwen3)";
inline constexpr std::string_view kGpt2 = "config.json (gpt2)";
inline constexpr std::string_view kMamba2 = "config.json (mamba2)";
inline constexpr std::string_view kVision = "config.json (vit, clip_vision_model, siglip_vision_model)";
inline constexpr std::string_view kProcessor = "preprocessor_config.json (image_processor)";
inline constexpr std::string_view kTwoTowers = "config.json (clip, siglip)";

inline constexpr std::string_view kDropout = "dropout is the job's: model.dropout";
inline constexpr std::string_view kStart = "only the start of a training from nothing has it";
inline constexpr std::string_view kCache = "how texts are generated";
inline constexpr std::string_view kTask = "labels of a classifier, which is not read";
inline constexpr std::string_view kEncoderDecoder = "a decoder alone is read";
inline constexpr std::string_view kQuantized = "quantized weights of other programs are not read";
inline constexpr std::string_view kDtype =
    "the job sets dtypes; the dtype of each tensor is read from the file of weights";
inline constexpr std::string_view kOnlyOfNote = "a note of another program";
inline constexpr std::string_view kResized = "frames are scaled to squares of the size of the learned positions";
inline constexpr std::string_view kPooler = "the pooler and the classifier are not read";

inline constexpr std::string_view kApplied = kTreatments[0], kRefused = kTreatments[1], kIgnored = kTreatments[2];

inline constexpr FileFact kFacts[] = {
    // llama, mistral, qwen2, qwen3, gemma2
    {kLlamaLike, "vocab_size", kApplied, "rows of the embedding; the tensors must have as many"},
    {kLlamaLike, "hidden_size", kApplied, "width of the residual stream"},
    {kLlamaLike, "intermediate_size", kApplied, "width of the feed-forward"},
    {kLlamaLike, "num_hidden_layers", kApplied, "number of layers"},
    {kLlamaLike, "num_attention_heads", kApplied, "number of heads"},
    {kLlamaLike, "num_key_value_heads", kApplied, "null: num_attention_heads"},
    {kLlamaLike, "head_dim", kApplied, "width of a head"},
    {kLlamaLike, "rms_norm_eps", kApplied, "value added to the variance in norms"},
    {kLlamaLike, "tie_word_embeddings", kApplied,
     "true: the head is the embedding, unless the file of weights has another head"},
    {kLlamaLike, "rope_parameters", kApplied,
     "default and llama3; linear, dynamic, yarn, longrope and others are refused. Must agree with rope_scaling"},
    {kLlamaLike, "rope_scaling", kApplied, "the older name of rope_parameters"},
    {kLlamaLike, "rope_theta", kApplied, "must agree with the one in rope_parameters or rope_scaling"},
    {kLlamaLike, "partial_rotary_factor", kRefused, "unless 1: positions turn all of a head"},
    {kLlamaLike, "original_max_position_embeddings", kApplied, "with rope_type llama3"},
    {kLlamaLike, "max_position_embeddings", kApplied,
     "with rope_type llama3, if original_max_position_embeddings is missing. Rotary positions have no limit"},
    {kLlamaLike, "attention_dropout", kIgnored, kDropout},
    {kSilu, "hidden_act", kApplied, "silu, swish"},
    {kBiased, "attention_bias", kApplied, "biases on the projections of attention"},
    {kLlama, "mlp_bias", kApplied, "biases on the feed-forward"},
    {kLlamaMistral, "layer_types", kApplied, "must say what the family computes in every layer"},
    {kLlama, "pretraining_tp", kIgnored, "how products are cut, which changes rounding alone"},
    {kLlama, "rope_interleaved", kRefused, "pairs are (i, i + head_dim / 2)"},
    {kLlama, "is_llama_config", kIgnored, kOnlyOfNote},
    {kMistral, "sliding_window", kApplied, "null: none"},
    {kQwen, "use_sliding_window", kApplied, "false: no window"},
    {kQwen, "sliding_window", kApplied, "with use_sliding_window"},
    {kQwen, "max_window_layers", kApplied, "with use_sliding_window, if layer_types is missing"},
    {kQwen, "layer_types", kApplied, "full_attention, sliding_attention at even distances from the first layer"},
    {kQwen, "dual_chunk_attention_config", kIgnored,
     "for texts longer than those of the first training; transformers does not read it"},
    {kGemma2, "hidden_activation", kApplied, "gelu_pytorch_tanh"},
    {kGemma2, "hidden_act", kApplied, "the older name of hidden_activation"},
    {kGemma2, "query_pre_attn_scalar", kApplied, "number whose square root divides the scores"},
    {kGemma2, "attn_logit_softcapping, final_logit_softcapping, sliding_window", kApplied, "null: none"},
    {kGemma2, "sliding_window_size", kApplied, "another name of sliding_window, with which it must agree"},
    {kGemma2, "layer_types", kApplied, "full_attention, sliding_attention at even distances from the first layer"},
    {kGemma2, "use_bidirectional_attention", kRefused, "tokens attend to what is before them only"},
    {kGemma2, "cache_implementation", kIgnored, kCache},
    // gpt2
    {kGpt2, "vocab_size", kApplied, "rows of the embedding; the tensors must have as many"},
    {kGpt2, "n_embd", kApplied, "or hidden_size"},
    {kGpt2, "hidden_size", kApplied, "another name of n_embd, with which it must agree"},
    {kGpt2, "n_layer", kApplied, "or num_hidden_layers"},
    {kGpt2, "num_hidden_layers", kApplied, "another name of n_layer, with which it must agree"},
    {kGpt2, "n_head", kApplied, "or num_attention_heads"},
    {kGpt2, "num_attention_heads", kApplied, "another name of n_head, with which it must agree"},
    {kGpt2, "n_positions", kApplied, "or max_position_embeddings"},
    {kGpt2, "max_position_embeddings", kApplied, "another name of n_positions, with which it must agree"},
    {kGpt2, "n_ctx", kIgnored, "n_positions counts"},
    {kGpt2, "n_inner", kApplied, "null: 4 n_embd"},
    {kGpt2, "activation_function", kApplied, "gelu_new, gelu_pytorch_tanh, gelu"},
    {kGpt2, "layer_norm_epsilon", kApplied, "value added to the variance in norms"},
    {kGpt2, "tie_word_embeddings", kApplied,
     "true: the head is the embedding, unless the file of weights has another head"},
    {kGpt2, "scale_attn_weights", kRefused, "unless true"},
    {kGpt2, "scale_attn_by_inverse_layer_idx", kRefused, "all layers have one scale"},
    {kGpt2, "reorder_and_upcast_attn", kIgnored, "scores are computed in float32 in any precision"},
    {kGpt2, "resid_pdrop, embd_pdrop, attn_pdrop", kIgnored, kDropout},
    {kGpt2, "summary_type, summary_use_proj, summary_activation, summary_proj_to_labels, summary_first_dropout",
     kIgnored, kTask},
    // mamba2
    {kMamba2, "vocab_size", kApplied, "rows of the embedding; the tensors must have as many"},
    {kMamba2, "hidden_size", kApplied, "width of the residual stream"},
    {kMamba2, "num_hidden_layers", kApplied, "number of layers"},
    {kMamba2, "state_size", kApplied, "state values of a channel"},
    {kMamba2, "expand", kApplied, "width of the scan, in hidden_size"},
    {kMamba2, "head_dim", kApplied, "width of a head"},
    {kMamba2, "num_heads", kApplied, "num_heads x head_dim must be expand x hidden_size"},
    {kMamba2, "intermediate_size", kApplied, "must be expand x hidden_size"},
    {kMamba2, "n_groups", kApplied, "groups of heads with one B and C"},
    {kMamba2, "conv_kernel", kApplied, "taps of the convolution"},
    {kMamba2, "use_conv_bias", kApplied, "a bias on the convolution"},
    {kMamba2, "use_bias", kApplied, "biases on the mixer's projections"},
    {kMamba2, "chunk_size", kApplied, "changes rounding alone; the job may set another"},
    {kMamba2, "tie_word_embeddings", kApplied,
     "true: the head is the embedding, unless the file of weights has another head"},
    {kMamba2, "layer_norm_epsilon", kApplied, "value added to the variance in norms"},
    {kMamba2, "time_step_limit", kApplied, "limits of the time steps"},
    {kMamba2, "hidden_act", kApplied, "silu, swish"},
    {kMamba2, "rms_norm", kRefused, "unless true"},
    {kMamba2, "norm_before_gate", kIgnored, "transformers does not read it: its norm is behind the gate"},
    {kMamba2, "residual_in_fp32", kIgnored, "the residual stream has the dtype of the job's precision"},
    {kMamba2, "time_step_rank", kIgnored, "a size of Mamba-1, which no tensor here has"},
    {kMamba2,
     "time_step_min, time_step_max, time_step_floor, time_step_scale, time_step_init_scheme, rescale_prenorm_residual",
     kIgnored, kStart},
    // Texts
    {kAll, "is_encoder_decoder", kRefused, kEncoderDecoder},
    {kText, "is_decoder", kIgnored, "the models are decoders with or without it"},
    {kText, "is_causal", kRefused, "unless true"},
    {kText, "add_cross_attention, cross_attention_hidden_size, tie_encoder_decoder", kRefused, kEncoderDecoder},
    {kText, "text_config, vision_config", kRefused, "a model of several parts"},
    {kText, "bos_token_id", kIgnored, "documents begin without a mark"},
    {kText, "eos_token_id", kApplied, "ends documents if the tokenizer's own files do not say which token does"},
    {kText, "pad_token_id", kIgnored, "texts are packed without padding"},
    {kText, "sep_token_id", kIgnored, "texts are packed without separators other than the end of a document"},
    {kText, "unk_token_id", kIgnored, "the tokenizer has it"},
    {kText, "decoder_start_token_id", kIgnored, "of encoder-decoders"},
    {kText, "prefix", kIgnored, kCache},
    {kText, "tokenizer_class", kIgnored, "data.tokenizer says which tokenizer it is"},
    {kText, "model_max_length, max_sequence_length", kIgnored, "the job sets data.sequence_length"},
    // Vision encoders
    {kVision, "image_size, patch_size", kApplied, "one number"},
    {kVision, "hidden_size", kApplied, "width of the residual stream"},
    {kVision, "num_hidden_layers", kApplied, "number of layers"},
    {kVision, "num_attention_heads", kApplied, "number of heads"},
    {kVision, "intermediate_size", kApplied, "width of the feed-forward"},
    {kVision, "layer_norm_eps", kApplied, "value added to the variance in norms"},
    {kVision, "hidden_act", kApplied, "gelu, gelu_new, gelu_pytorch_tanh, quick_gelu"},
    {kVision, "num_channels", kRefused, "unless 3"},
    {kVision, "qkv_bias", kRefused, "unless true"},
    {kVision, "attention_dropout, dropout, hidden_dropout_prob, attention_probs_dropout_prob", kIgnored,
     "no dropout in an encoder"},
    {kVision, "encoder_stride", kIgnored, "of a decoder of masked images, which is not read"},
    {kVision, "pooler_output_size, pooler_act, vision_use_head, projection_dim", kIgnored, kPooler},
    {kVision, "initializer_factor", kIgnored, kStart},
    {kTwoTowers, "vision_config", kApplied, "the settings of the encoder"},
    {kTwoTowers, "vision_config_dict", kApplied, "an older name of vision_config, with which it must agree"},
    {kTwoTowers, "text_config, text_config_dict", kIgnored, "the text encoder is not read"},
    {kTwoTowers, "projection_dim", kIgnored, "the projection is not read"},
    {kTwoTowers, "logit_scale_init_value, initializer_factor", kIgnored, kStart},
    // preprocessor_config.json, or image_processor of processor_config.json
    {kProcessor, "do_rescale", kRefused, "unless true: pixels are divided by 255"},
    {kProcessor, "rescale_factor", kApplied, "must be 1 / 255"},
    {kProcessor, "do_normalize", kApplied, "false: colors stay in [0, 1]"},
    {kProcessor, "image_mean", kApplied, "subtracted from colors in [0, 1]"},
    {kProcessor, "image_std", kApplied, "colors are divided by it"},
    {kProcessor, "offset", kRefused, "colors are in [0, 1] before the mean is subtracted"},
    {kProcessor, "do_flip_channel_order", kRefused, "colors are in the order red, green, blue"},
    {kProcessor, "do_convert_grayscale", kRefused, "colors stay as they are"},
    {kProcessor,
     "do_resize, size, size_divisor, resample, do_center_crop, crop_size, do_pad, pad_size, default_to_square",
     kIgnored, kResized},
    {kProcessor, "do_convert_rgb", kIgnored, "frames have three colors"},
    {kProcessor, "data_format, input_data_format", kIgnored, "the order of dimensions in transformers"},
    {kProcessor, "return_tensors", kIgnored, "which values transformers returns"},
    {kProcessor, "device", kIgnored, "where transformers computes"},
    {kProcessor, "disable_grouping", kIgnored, "how transformers computes several pictures"},
    {kProcessor,
     "image_processor_type, feature_extractor_type, processor_class, _processor_class, _valid_processor_keys", kIgnored,
     kOnlyOfNote},
    // All
    {kAll, "model_type", kApplied, "the family"},
    {kAll, "quantization_config, quantization, compression_config", kRefused, kQuantized},
    {kAll, "per_layer_config", kRefused, "layers that differ in more than windows"},
    {kAll, "pruned_heads", kRefused, "all layers have all heads"},
    {kAll, "architectures", kIgnored,
     "the tensors show which parts the file has; a note if no name is of the model_type"},
    {kAll, "auto_map", kIgnored, "programs in the folder are not run; the family is that of model_type"},
    {kAll, "dtype, torch_dtype, use_bfloat16", kIgnored, kDtype},
    {kAll,
     "transformers_version, _name_or_path, name_or_path, _commit_hash, unsloth_fixed, unsloth_version, "
     "transformers.js_config",
     kIgnored, kOnlyOfNote},
    {kAll, "initializer_range", kIgnored, kStart},
    {kAll, "gradient_checkpointing", kIgnored, "the planner chooses what is recomputed"},
    {kAll,
     "use_flash_attention_2, _flash_attn_2_enabled, use_flash_attn, attn_implementation, _attn_implementation, "
     "_attn_implementation_autoset, _attn_implementation_internal",
     kIgnored, "which kernel computes attention"},
    {kAll, "experts_implementation, _experts_implementation_internal", kIgnored,
     "which kernel computes experts, which no family here has"},
    {kAll, "chunk_size_feed_forward", kIgnored, "how the feed-forward is cut, which changes rounding alone"},
    {kAll, "output_attentions, output_hidden_states, tie_last_hidden_states, return_dict, torchscript", kIgnored,
     "which values transformers returns"},
    {kAll,
     "use_cache, bad_words_ids, begin_suppress_tokens, diversity_penalty, do_sample, early_stopping, "
     "encoder_no_repeat_ngram_size, exponential_decay_length_penalty, forced_bos_token_id, forced_eos_token_id, "
     "length_penalty, max_length, max_new_tokens, min_length, no_repeat_ngram_size, num_beam_groups, num_beams, "
     "num_return_sequences, output_scores, remove_invalid_values, repetition_penalty, return_dict_in_generate, "
     "suppress_tokens, temperature, top_k, top_p, typical_p",
     kIgnored, kCache},
    {kAll, "id2label, label2id, num_labels, problem_type, finetuning_task, task_specific_params", kIgnored, kTask},
    // Settings of generation, which older versions kept in config.json.
};
static_assert(are_complete(kFacts));

}  // namespace plimsoll::weights::config
