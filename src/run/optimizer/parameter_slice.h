// Declares slices of parameters for ranks that each update a part of the model.
//
//     whole, padded   | slice of rank 0 | slice of rank 1 | slice of rank 2 .... padding |     in the order of memory
//
// All slices of a parameter have the same number of elements, so that the ranks have the same plan. They begin at
// borders of the blocks of 8- and 4-bit state, of random rounding and of norms. The update of all slices has therefore
// the bits of an update of the whole parameter.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

namespace plimsoll::optimizer {

/// Returns the elements of each rank's slice of a parameter of `elements` elements, a multiple of 1024. Returns 0 if
/// every rank has the whole parameter: it has fewer than 4096 elements for each rank, or their number is no multiple of
/// 128 (the last block of 8- and 4-bit state would be split differently in a slice).
int64_t slice_elements(int64_t elements, int64_t ranks);

/// The slice of a parameter that this rank updates.
struct ParameterSlice {
  at::Tensor parameter;  ///< the whole parameter, as in the model
  at::Tensor padded;     ///< the memory of `parameter`, flat, [ranks * elements]
  at::Tensor own;        ///< the slice, flat, [elements]: part of `padded`, or with `apart` in memory of its own
  int64_t rank = 0, ranks = 1;
  int64_t elements = 0;  ///< number of elements of each slice
  bool apart = false;    ///< the rank stores only its slice; the whole parameter exists while ops use it

  int64_t first_element() const { return rank * elements; }
};

}  // namespace plimsoll::optimizer
