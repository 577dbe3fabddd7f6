// What fills the memory of a plan, by what changes of its job would do to it: an estimate of what a change is worth
// before it is planned.
#pragma once

#include <string>

#include "plimsoll/train_job.h"

namespace plimsoll {

/// Bytes at the peak of the leanest plan. Parameters by whether they are trained and whether they are of 32 bits:
/// `linear` are frozen weights of a decoder's linear layers, which can be put into blocks.
struct AdviceLoad {
  double linear_wide = 0, linear_half = 0;
  double frozen_wide = 0, frozen_half = 0;
  double trained_wide = 0, trained_half = 0;
  double gradients = 0, state = 0, activations = 0, inputs = 0;
  double rest = 0;             ///< blocks, context, scratch, what lies idle
  bool trains_linear = false;  ///< some of the decoder's linear layers are trained themselves, not by adapters

  double parameters() const {
    return linear_wide + linear_half + frozen_wide + frozen_half + trained_wide + trained_half;
  }
  double total() const { return parameters() + gradients + state + activations + inputs + rest; }
  /// 32-bit parameters of these kinds become 16-bit ones.
  void halve(double AdviceLoad::*wide, double AdviceLoad::*half) {
    this->*half += this->*wide / 2;
    this->*wide = 0;
  }
  /// The linear layers' weights in so many bits each.
  void quantize(double bits) {
    rest += linear_wide * bits / 32 + linear_half * bits / 16;
    linear_wide = linear_half = 0;
  }
};

/// Of `planned`; `linear_layers` is the path that the decoder's layers lie under ("llm.layers").
AdviceLoad load_of(const PlannedJob& planned, const std::string& linear_layers);

}  // namespace plimsoll
