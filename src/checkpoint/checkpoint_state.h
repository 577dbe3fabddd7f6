// Declares conversions of optimizer state from a checkpoint with another state_dtype or weight_update: those that
// change no value, and how they are made.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "checkpoint/checkpoint.h"
#include "safetensors/safetensors.h"

namespace plimsoll {

/// A group of tensors of the job that are made from tensors of the file, because name, type or size differ.
struct StateConversion {
  std::vector<std::string> from;  ///< names in the file; none if zeros, or the weights, are the source
  std::vector<std::string> to;    ///< names in the job
  std::function<void()> apply;    ///< writes the job's tensors, once the parameters are loaded; cannot fail
};

/// Returns the conversions that are exact: 8 and 4 bits to float32; 8 and 4 bits to bfloat16 if no value is too small
/// for it; 16 bits to float32; a remainder to a master and back; a compensation to either if float32 holds the sum; no
/// companion to any. `refusals` gets all others, with the setting that would work; they are not converted. Both `file`
/// and `state` must outlive the result.
std::vector<StateConversion> state_conversions(const SafetensorsFile& file, const NamedTensors& state,
                                               std::vector<std::string>& refusals);

}  // namespace plimsoll
