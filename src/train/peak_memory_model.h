// Declares a model of a plan's peak memory, split by kind of bytes. The search for changes scales the parts that a
// change affects, and so estimates the new peak before it plans the change.
#pragma once

#include <string>

#include "plimsoll/plan_job.h"

namespace plimsoll {

/// A split of the bytes at the peak of a plan. No byte is in two fields. Parameters are split by their use and by their
/// size: 32 bits (wide) or 16 bits (half). `linear_…` has the frozen weights of a decoder's linear layers, which can be
/// quantized in blocks; `frozen_…` has all other frozen parameters.
struct PeakMemoryModel {
  double linear_wide = 0, linear_half = 0;
  double frozen_wide = 0, frozen_half = 0;
  double trained_wide = 0, trained_half = 0;
  double gradients = 0, state = 0, activations = 0, inputs = 0;
  double rest = 0;  ///< quantized blocks, context, scratch, fragmentation
  /// true: weights of the decoder's linear layers are trained directly, not through adapters.
  bool trains_linear = false;

  double parameters() const {
    return linear_wide + linear_half + frozen_wide + frozen_half + trained_wide + trained_half;
  }
  double total() const { return parameters() + gradients + state + activations + inputs + rest; }
  /// Converts the parameters in `wide` from 32 to 16 bits, and adds them to `half`.
  void halve(double PeakMemoryModel::*wide, double PeakMemoryModel::*half) {
    this->*half += this->*wide / 2;
    this->*wide = 0;
  }
  /// Quantizes the weights in `linear_wide` and `linear_half` to `bits` bits each, and adds them to `rest`.
  void quantize(double bits) {
    rest += linear_wide * bits / 32 + linear_half * bits / 16;
    linear_wide = linear_half = 0;
  }
};

/// Returns the split of the peak of `planned`; `linear_layers` is the module path of the decoder's layers
/// ("llm.layers").
PeakMemoryModel peak_memory_of(const PlannedJob& planned, const std::string& linear_layers);

}  // namespace plimsoll
