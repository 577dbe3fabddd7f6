#include "fine_tuning/weight_types.h"

#include "ops/dtypes.h"

namespace plimsoll {

c10::ScalarType weight_type(const TrainingOptions& options) {
  if (options.dtype) return scalar_type_of(*options.dtype);
  return options.precision == Precision::bf16_true ? at::kBFloat16 : at::kFloat;
}

c10::ScalarType input_type(const TrainingOptions& options, c10::ScalarType declared) {
  const bool lower = !is_mixed(options.precision) && weight_type(options) != at::kFloat;
  return lower && at::isFloatingType(declared) ? weight_type(options) : declared;
}

model::FineTuneTypes fine_tune_types(const TrainingOptions& options) {
  model::FineTuneTypes types;
  if (options.precision == Precision::bf16_true) types.adapters = at::kBFloat16;
  // A dtype that the user sets is kept.
  if (is_mixed(options.precision) && !options.dtype)
    types.frozen_linear = options.precision == Precision::fp16_mixed ? at::kHalf : at::kBFloat16;
  return types;
}

}  // namespace plimsoll
