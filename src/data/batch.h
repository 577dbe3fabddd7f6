// Declares the batch that a data pipeline gives to a training step, its rows, its conversion to other dtypes, and
// random batches.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "plimsoll/trace.h"

namespace plimsoll {

/// One named tensor of a batch, dense and row-major.
struct BatchField {
  std::string name;  ///< name of the trace's input, such as "tokens"
  DType dtype = DType::int64;
  std::vector<int64_t> sizes;    ///< sizes; the first is the number of samples
  std::vector<std::byte> bytes;  ///< element_bytes(dtype) x the product of sizes
};

struct Batch {
  int64_t position = 0;  ///< position of the first sample, counted over all epochs
  int64_t samples = 0;
  std::vector<BatchField> fields;
};

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

/// Converts fields of float32 to bfloat16. Values are rounded to the nearest, ties to even, as a cast on the device
/// rounds them; NaNs stay NaNs. Other fields are not changed.
void cast_to_bfloat16(Batch& batch);

/// One input of a sample.
struct SyntheticField {
  std::string name;
  DType dtype = DType::float32;  ///< float32: from N(0, 1); int64, uint8: uniform in [0, values)
  std::vector<int64_t> sizes;    ///< sizes without the samples
  int64_t values = 0;            ///< upper bound (exclusive) of whole numbers
};

/// Returns samples `indices` of the endless sequence of random samples of `seed`, for measuring a model's memory and
/// speed without data. A sample depends on seed and index alone, not on its batch.
Batch make_synthetic_batch(const std::vector<SyntheticField>& fields, uint64_t seed, int64_t position,
                           const std::vector<int64_t>& indices);

}  // namespace plimsoll
