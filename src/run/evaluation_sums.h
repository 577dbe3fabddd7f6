// Defines the name prefix of the outputs of a recorded step that are sums of an evaluation.
#pragma once

#include <string>

namespace plimsoll {

inline const std::string kSumPrefix = "sum:";

}  // namespace plimsoll
