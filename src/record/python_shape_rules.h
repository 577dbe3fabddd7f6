// Declares shapes of operators whose Meta kernels libtorch has in Python only.
#pragma once

#include <string>
#include <unordered_map>

#include "record/shape_rules.h"

namespace plimsoll {

/// Returns the rules by operator name.
const std::unordered_map<std::string, ShapeRule>& python_shape_rules();

}  // namespace plimsoll
