// Adds several tensors in a given order, rounded like at::add_.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <span>

namespace plimsoll {

/// Returns true if sums of `sum` can take terms of `source`: float32, float64, bfloat16 or float16 from the same dtype,
/// float32 also from bfloat16 and float16, float64 from all of them.
bool can_sum(at::ScalarType sum, at::ScalarType source);

/// Sets sum = t_0 + t_1 + … if `first`, else sum + t_0 + t_1 + …, element by element in this order. Each addition is
/// rounded to the dtype of `sum`: the bits of sum.copy_(t_0) and sum.add_(t_1). `sum` and every term have `elements`
/// elements, all terms the dtype `source_type`. `sum` may be one of the terms. Runs on the threads of at::parallel_for
/// if there are many elements. Throws InternalError if !can_sum(sum_type, source_type).
void add_in_order(void* sum, at::ScalarType sum_type, std::span<const void* const> terms, at::ScalarType source_type,
                  int64_t elements, bool first);

/// Copies bytes, on the threads of at::parallel_for if there are many. The ranges do not overlap.
void copy_bytes(void* target, const void* source, int64_t bytes);

}  // namespace plimsoll
