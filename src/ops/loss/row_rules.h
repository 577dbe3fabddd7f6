// Declares the rules by which the pass slice_rows cuts libtorch's operators into chunks of rows.
#pragma once

#include "trace/row_slicing.h"

namespace plimsoll {

/// Returns the rules of libtorch's operators, and the ops that add up chunks. One element of a result must depend on
/// one row of each operand, or be a sum over rows.
RowSlicing row_slicing();

}  // namespace plimsoll
