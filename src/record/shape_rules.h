// Output shapes of operators whose Meta kernel libtorch 2.11 lacks in C++ or has wrong, and operators that cannot be
// recorded.
#pragma once

#include <string>

#include "record/op_signature.h"

namespace plimsoll {

/// The rule for "aten::native_layer_norm" or "aten::where.self", or nullptr: then the Meta kernel is asked.
const ShapeRule* find_shape_rule(const std::string& name);

/// Why "aten::nonzero" cannot be recorded and what to use instead, or nullptr.
const std::string* find_refusal(const std::string& name);

/// Every operator that has a rule of ours, for the test that compares each with the CPU's answer.
std::vector<std::string> ruled_operators();

}  // namespace plimsoll
