// Declares a model of a plan's peak memory, split by kind of bytes. The search for changes scales the parts that a
// change affects, and so estimates the new peak before it plans the change.
#pragma once

#include <string>

#include "plimsoll/plan_job.h"

namespace plimsoll {

/// A split of the bytes at the peak of a plan. No byte is in two fields. Parameters are split by their use and by their
/// size: 32 bits (wide) or 16 bits (half). `frozen_linear_…` has the frozen weights of a decoder's linear layers, which
/// can be quantized in blocks; `frozen_other_…` has all other frozen parameters.
struct PeakMemoryModel {
  double frozen_linear_wide = 0, frozen_linear_half = 0;
  double frozen_other_wide = 0, frozen_other_half = 0;
  double trained_wide = 0, trained_half = 0;
  double gradients = 0, state = 0, activations = 0, inputs = 0;
  double rest = 0;  ///< quantized blocks, context, scratch, fragmentation
  /// true: weights of the decoder's linear layers are trained directly, not through adapters.
  bool trains_linear = false;

  double parameters() const {
    return frozen_linear_wide + frozen_linear_half + frozen_other_wide + frozen_other_half + trained_wide +
           trained_half;
  }
  double total() const { return parameters() + gradients + state + activations + inputs + rest; }
  /// Converts the parameters in `wide` from 32 to 16 bits, and adds them to `half`.
  void halve(double PeakMemoryModel::*wide, double PeakMemoryModel::*half) {
    this->*half += this->*wide / 2;
    this->*wide = 0;
  }
  /// Quantizes the weights in `frozen_linear_wide` and `frozen_linear_half` to `bits` bits each, and adds them to
  /// `rest`.
  void quantize(double bits) {
    rest += frozen_linear_wide * bits / 32 + frozen_linear_half * bits / 16;
    frozen_linear_wide = frozen_linear_half = 0;
  }
};

/// Returns the split of the peak of `planned`; `decoder_layers` is the result of decoder_layers_of(): "llm.layers".
PeakMemoryModel peak_memory_of(const PlannedJob& planned, const std::string& decoder_layers);

}  // namespace plimsoll
