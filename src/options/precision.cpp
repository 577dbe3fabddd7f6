// Defines the names of precisions.
#include "plimsoll/error.h"
#include "plimsoll/options.h"

namespace plimsoll {

std::string_view name_of(Precision precision) {
  switch (precision) {
    case Precision::fp32_true:
      return "32-true";
    case Precision::fp16_mixed:
      return "16-mixed";
    case Precision::bf16_mixed:
      return "bf16-mixed";
    case Precision::automatic:
      return "auto";
    case Precision::bf16_true:
      return "bf16-true";
  }
  throw InternalError("name_of: not a precision");
}

}  // namespace plimsoll
