// Which types a training holds weights in: from its precision and from what the user says of the weights.
#pragma once

#include <c10/core/ScalarType.h>

#include "model/fine_tune.h"
#include "plimsoll/training.h"

namespace plimsoll {

inline bool is_mixed(Precision precision) {
  return precision == Precision::fp16_mixed || precision == Precision::bf16_mixed;
}

/// What the model's weights are made in. Without mixed precision, what its floating-point inputs are cast to as well,
/// as Lightning does it.
c10::ScalarType weight_type(const TrainingOptions& options);

/// What adapters, and frozen weights of linear layers, are held in.
model::FineTuneTypes fine_tune_types(const TrainingOptions& options);

}  // namespace plimsoll
