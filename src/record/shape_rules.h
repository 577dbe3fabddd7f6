// Declares output shapes of operators whose Meta kernel is missing or wrong in libtorch or exists in Python
// alone, and operators that cannot be recorded.
#pragma once

#include <string>
#include <unordered_map>

#include "record/op_signature.h"

namespace plimsoll {

/// Returns the rule for "aten::native_layer_norm" or "aten::where.self"; nullptr: the Meta kernel is used.
const ShapeRule* find_shape_rule(const std::string& name);

/// Returns why "aten::nonzero" cannot be recorded and what to use instead; nullptr: it can be recorded.
const std::string* find_refusal(const std::string& name);

/// Returns the rules by operator name.
const std::unordered_map<std::string, ShapeRule>& python_shape_rules();

}  // namespace plimsoll
