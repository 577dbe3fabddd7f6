// The configuration of a decoder-only transformer: `model.type: decoder`, and the language model of others.
#pragma once

#include <cstdint>
#include <string>

namespace plimsoll {

/// Decoder-only transformer (`model.type: decoder`).
struct DecoderConfig {
  int64_t vocab_size = 0;     ///< rows of the embedding; 0 (`auto`): the tokenizer's, rounded up to 64
  int64_t hidden_size = 256;  ///< width of the residual stream
  int64_t num_layers = 4;
  int64_t num_heads = 4;
  int64_t num_kv_heads = 0;           ///< 0: as many as num_heads; otherwise it divides num_heads (GQA)
  int64_t head_dim = 0;               ///< 0: hidden_size / num_heads; even where positions are "rope"
  int64_t intermediate_size = 0;      ///< 0: 4 x hidden_size (gelu) or 8/3 x hidden_size rounded up to 64 (swiglu)
  std::string norm = "rmsnorm";       ///< rmsnorm | layernorm
  std::string positions = "rope";     ///< rope | learned
  std::string activation = "swiglu";  ///< swiglu | gelu
  bool tie_embeddings = true;         ///< the head uses the embedding's weight
  bool attention_bias = false;        ///< biases on the query, key, value and output projections
  bool mlp_bias = false;              ///< biases on the feed-forward projections
  int64_t sliding_window = 0;         ///< positions that a token looks back on, itself included; 0: all
  double dropout = 0.0;               ///< [0, 1): on attention output and feed-forward output
  double norm_eps = 1e-5;
  double rope_theta = 10000.0;
};

}  // namespace plimsoll
