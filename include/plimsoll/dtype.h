// Element types of tensors, named as PyTorch names them, without libtorch's headers.
#pragma once

#include <cstdint>
#include <string_view>

namespace plimsoll {

/// Element type of a tensor.
enum class DType : uint8_t {
  float32,
  float64,
  float16,
  bfloat16,
  int64,
  int32,
  int16,
  int8,
  uint8,
  boolean,
  complex64,
  complex128,
};

/// Bytes of one element.
int64_t element_bytes(DType dtype);

/// "float32", "bfloat16", "int64", "bool", …
std::string_view name_of(DType dtype);

}  // namespace plimsoll
