// Defines the words of the job file for the optimizer's choices.
#include "plimsoll/error.h"
#include "plimsoll/options.h"

namespace plimsoll {

std::string_view name_of(StateDtype dtype) {
  switch (dtype) {
    case StateDtype::as_parameters:
      return "parameters";
    case StateDtype::float32:
      return "float32";
    case StateDtype::bfloat16:
      return "bfloat16";
    case StateDtype::bits8:
      return "8bit";
    case StateDtype::bits4:
      return "4bit";
    case StateDtype::automatic:
      return "auto";
  }
  throw InternalError("not a state dtype");
}

std::string_view name_of(WeightUpdate update) {
  switch (update) {
    case WeightUpdate::nearest:
      return "nearest";
    case WeightUpdate::stochastic:
      return "stochastic";
    case WeightUpdate::kahan:
      return "kahan";
    case WeightUpdate::split:
      return "split";
    case WeightUpdate::master:
      return "master";
    case WeightUpdate::automatic:
      return "auto";
  }
  throw InternalError("not a weight update");
}

std::string_view name_of(AccumulatorDtype dtype) {
  switch (dtype) {
    case AccumulatorDtype::as_gradients:
      return "gradients";
    case AccumulatorDtype::float32:
      return "float32";
    case AccumulatorDtype::bfloat16:
      return "bfloat16";
    case AccumulatorDtype::bits8:
      return "8bit";
    case AccumulatorDtype::automatic:
      return "auto";
  }
  throw InternalError("not an accumulator dtype");
}

}  // namespace plimsoll
