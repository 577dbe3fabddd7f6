// Defines the names of strategies.
#include "plimsoll/error.h"
#include "plimsoll/options.h"

namespace plimsoll {

std::string_view name_of(Strategy strategy) {
  switch (strategy) {
    case Strategy::ddp:
      return "ddp";
    case Strategy::zero1:
      return "zero1";
    case Strategy::zero2:
      return "zero2";
    case Strategy::zero3:
      return "zero3";
    case Strategy::automatic:
      return "auto";
  }
  throw InternalError("name_of: not a strategy");
}

}  // namespace plimsoll
