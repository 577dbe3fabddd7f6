// Declares the dtypes that a training holds weights in. They follow from its precision and from the user's options for
// weights.
#pragma once

#include <c10/core/ScalarType.h>

#include "fine_tuning/fine_tune.h"
#include "plimsoll/options.h"

namespace plimsoll {

inline bool is_mixed(Precision precision) {
  return precision == Precision::fp16_mixed || precision == Precision::bf16_mixed;
}

/// Returns the dtype that the model's weights are made in.
c10::ScalarType weight_type(const TrainingOptions& options);

/// Returns the dtype in memory of an input that is declared as `declared`. Without mixed precision floating-point
/// inputs have the weights' dtype, as in Lightning. They are cast on the host, so the device holds no wider copy.
c10::ScalarType input_type(const TrainingOptions& options, c10::ScalarType declared);

/// Returns the dtypes of adapters and of frozen weights of linear layers.
model::FineTuneTypes fine_tune_types(const TrainingOptions& options);

}  // namespace plimsoll
