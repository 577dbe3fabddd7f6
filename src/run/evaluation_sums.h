// How the outputs of a recorded step are named that are sums of an evaluation.
#pragma once

#include <string>

namespace plimsoll {

inline const std::string kSumPrefix = "sum:";

}  // namespace plimsoll
