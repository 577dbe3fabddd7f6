// Declares helpers for fields of a batch that a source fills row by row.
#pragma once

#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "data/batch.h"

namespace plimsoll {

/// Returns a field of zeros with these sizes.
template <typename Number>
BatchField field_of(const char* name, DType dtype, std::vector<int64_t> sizes) {
  int64_t count = 1;
  for (const int64_t size : sizes) count *= size;
  return {name, dtype, std::move(sizes), std::vector<std::byte>(static_cast<size_t>(count) * sizeof(Number))};
}

/// Returns row `row` of a field, along its first dimension.
template <typename Number>
std::span<Number> row_of(BatchField& field, int64_t row) {
  const auto numbers = static_cast<int64_t>(field.bytes.size() / sizeof(Number)) / field.sizes.front();
  // operator new aligns the bytes for any type.
  return {reinterpret_cast<Number*>(field.bytes.data()) + row * numbers, static_cast<size_t>(numbers)};
}

}  // namespace plimsoll
