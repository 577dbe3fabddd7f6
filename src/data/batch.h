// What a data pipeline hands to a training step.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "plimsoll/trace.h"

namespace plimsoll {

/// One named tensor of a batch, dense and row-major.
struct BatchField {
  std::string name;  ///< the input of the trace that it is bound to: "tokens"
  DType dtype = DType::int64;
  std::vector<int64_t> sizes;    ///< the first is the samples
  std::vector<std::byte> bytes;  ///< element_bytes(dtype) x the product of sizes
};

struct Batch {
  int64_t position = 0;  ///< of the first sample, counted over all epochs
  int64_t samples = 0;
  std::vector<BatchField> fields;
};

}  // namespace plimsoll
