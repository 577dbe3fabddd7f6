// Which types a training holds weights in: from its precision and from what the user says of the weights.
#pragma once

#include <c10/core/ScalarType.h>

#include "fine_tuning/fine_tune.h"
#include "plimsoll/options.h"

namespace plimsoll {

inline bool is_mixed(Precision precision) {
  return precision == Precision::fp16_mixed || precision == Precision::bf16_mixed;
}

/// What the model's weights are made in.
c10::ScalarType weight_type(const TrainingOptions& options);

/// What an input that is declared as `declared` lies in memory as. Without mixed precision floating-point inputs have
/// the weights' type, as in Lightning; they are cast on the host, so that the device holds no wider copy.
c10::ScalarType input_type(const TrainingOptions& options, c10::ScalarType declared);

/// What adapters, and frozen weights of linear layers, are held in.
model::FineTuneTypes fine_tune_types(const TrainingOptions& options);

}  // namespace plimsoll
