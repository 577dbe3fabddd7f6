// Declares random inputs with a step's shapes, for measuring a model's memory and speed without data.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "data/batch.h"

namespace plimsoll {

/// One input of a sample.
struct SyntheticField {
  std::string name;
  DType dtype = DType::float32;  ///< float32: from N(0, 1); int64, uint8: uniform in [0, values)
  std::vector<int64_t> sizes;    ///< sizes without the samples
  int64_t values = 0;            ///< upper bound (exclusive) of whole numbers
};

/// Returns samples `indices` of the endless sequence of random samples of `seed`. A sample depends on seed and index
/// alone, not on its batch.
Batch make_synthetic_batch(const std::vector<SyntheticField>& fields, uint64_t seed, int64_t position,
                           const std::vector<int64_t>& indices);

}  // namespace plimsoll
