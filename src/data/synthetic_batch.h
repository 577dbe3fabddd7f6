// Random inputs of a step's shapes, for trying out a model's memory and speed without data.
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
  std::vector<int64_t> sizes;    ///< without the samples
  int64_t values = 0;            ///< of whole numbers
};

/// Samples `indices` of the endless line of random samples that `seed` stands for: what a sample is depends on seed and
/// index alone, whatever batch it comes in.
Batch make_synthetic_batch(const std::vector<SyntheticField>& fields, uint64_t seed, int64_t position,
                           const std::vector<int64_t>& indices);

}  // namespace plimsoll
