// Declares conversions between libtorch's element types and ours.
#pragma once

#include <c10/core/ScalarType.h>

#include "plimsoll/trace.h"

namespace plimsoll {

/// Returns our type. Throws UserError for a type that no trace can hold (quantized types, float8).
DType dtype_of(c10::ScalarType type);
c10::ScalarType scalar_type_of(DType dtype);

}  // namespace plimsoll
