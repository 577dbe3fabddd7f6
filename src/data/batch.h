// Declares the batch that a data pipeline gives to a training step.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
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

}  // namespace plimsoll
