// The configuration of a decoder-only transformer: `model.type: decoder`, and the language model of others.
#pragma once

#include <cstdint>
#include <string>

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

}  // namespace plimsoll
