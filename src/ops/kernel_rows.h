// Declares access to a row of a kernel's argument as elements of its type.
#pragma once

#include "ops/kernel_arguments.h"
#include "ops/lanes.h"

namespace plimsoll::ops {

template <typename T>
PLIMSOLL_INLINE const T* row_of(const ConstRows& rows, int64_t row) {
  return static_cast<const T*>(rows.data) + row * rows.stride;
}
template <typename T>
PLIMSOLL_INLINE T* row_of(const Rows& rows, int64_t row) {
  return static_cast<T*>(rows.data) + row * rows.stride;
}

}  // namespace plimsoll::ops
