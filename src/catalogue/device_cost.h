// Declares the cost of ops on a catalogue device: its data sheet's rates, reduced to the shares that kernels reach.
#pragma once

#include "plimsoll/cost_model.h"
#include "plimsoll/devices.h"

namespace plimsoll {

/// Shares of the data sheet's rates that libtorch's kernels typically reach on sizes that fill a device. Estimated from
/// published model FLOP utilization (torchtitan and LLMQ report 33 to 70 % for whole steps), not measured here.
struct KernelEfficiency {
  double product = 0.70;
  double convolution = 0.50;
  double attention = 0.45;  ///< fused, forward and backward
  double bandwidth = 0.80;
  double link = 0.80;
};

CostModel cost_model_of(const DeviceSpec& device, const KernelEfficiency& efficiency = {});

}  // namespace plimsoll
