// Declares libtorch's counterparts of a trace: its element types, and the operator and arguments that replay needs
// for one recorded call.
#pragma once

#include <ATen/core/dispatch/Dispatcher.h>
#include <c10/core/ScalarType.h>

#include <string>
#include <vector>

#include "plimsoll/trace.h"

namespace plimsoll {

/// Returns our type. Throws UserError for a type that no trace can hold (quantized types, float8).
DType dtype_of(c10::ScalarType type);
c10::ScalarType scalar_type_of(DType dtype);

/// The libtorch operator and arguments that replay needs for one recorded call.
struct OpCall {
  c10::OperatorHandle op;
  /// The arguments in schema order. Arguments that are tensors in the trace are None here. Tensors that stay are
  /// constants (a Python-style scalar is a CPU tensor of zero dimensions).
  std::vector<c10::IValue> constants;
};

}  // namespace plimsoll
