// The configuration of `model.type: gesture_ssm`: a classifier of point sequences by state-space layers.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace plimsoll {

/// Sizes of a gesture classifier.
struct GestureSsmConfig {
  int64_t channels = 6;     ///< numbers of a vector, beside its time
  int64_t num_classes = 4;  ///< of gestures
  int64_t hidden_dim = 256;
  int64_t num_layers = 6;
  int64_t d_state = 128;     ///< numbers that each channel of the scan remembers
  int64_t expand = 2;        ///< the scan's width, in hidden_dim
  int64_t head_dim = 64;     ///< channels of a head of the scan, which share their decay; divides expand x hidden_dim
  int64_t conv_width = 4;    ///< taps of the convolution before the scan: 1 to 4
  int64_t chunk_size = 128;  ///< vectors that the scan takes at a time; of no effect on results but their rounding
  /// "false": a mixer for each direction of each layer. "bidirectional": one a layer, for both directions. "true": one
  /// mixer for all layers and directions; norms stay each layer's own.
  std::string share_weights = "false";
  /// Layers are dealt out evenly to one stage more than there are factors; between stages so many tokens at a time give
  /// way to their mean. The head sees the mean of each stage's output.
  std::vector<int64_t> pooling_scales;
  std::optional<bool> use_checkpoint;  ///< as it was given; the job's gradient_checkpointing is what counts
  double dropout = 0;                  ///< [0, 1): on what every layer adds
  double norm_eps = 1e-5;
};

}  // namespace plimsoll
