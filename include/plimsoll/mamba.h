// The configuration of `model.type: mamba`: a language model of state-space layers.
#pragma once

#include <cstdint>
#include <limits>

namespace plimsoll {

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
  /// What steps of the scan are held between.
  double least_step = 0, most_step = std::numeric_limits<double>::infinity();
  bool tie_embeddings = true;  ///< the head uses the embedding's weight
  double norm_eps = 1e-5;
};

}  // namespace plimsoll
