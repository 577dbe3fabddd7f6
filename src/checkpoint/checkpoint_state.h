// Optimizer state of a checkpoint that was written with another state_dtype or weight_update: which of it can be turned
// into the job's without changing a number, and how.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "checkpoint/checkpoint.h"
#include "safetensors/safetensors.h"

namespace plimsoll {

/// Tensors of the job that are made from tensors of the file, where name, type and size do not all agree.
struct StateConversion {
  std::vector<std::string> from;  ///< names in the file; none where zeros, or the weights, are what is wanted
  std::vector<std::string> to;    ///< names in the job
  std::function<void()> apply;    ///< writes the job's tensors, once the parameters are loaded; cannot fail
};

/// Exact are: 8 and 4 bits to float32, to bfloat16 where no number is too small for it, 16 bits to float32; a remainder
/// to a master and back; a compensation to either where float32 holds the sum; from no companion to any. Everything
/// else is named in `refusals` with what would do, and left out. Both `file` and `state` must outlive the answer.
std::vector<StateConversion> state_conversions(const SafetensorsFile& file, const NamedTensors& state,
                                               std::vector<std::string>& refusals);

}  // namespace plimsoll
