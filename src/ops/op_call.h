// Declares the libtorch operator and arguments that replay needs for one recorded call.
#pragma once

#include <ATen/core/dispatch/Dispatcher.h>

#include <string>
#include <vector>

#include "plimsoll/trace.h"

namespace plimsoll {

struct OpCall {
  c10::OperatorHandle op;
  /// The arguments in schema order. Arguments that are tensors in the trace are None here. Tensors that stay are
  /// constants (a Python-style scalar is a CPU tensor of zero dimensions).
  std::vector<c10::IValue> constants;
};

}  // namespace plimsoll
