#include "plimsoll/trace.h"

#include "plimsoll/error.h"

namespace plimsoll {

int64_t element_bytes(DType dtype) {
  switch (dtype) {
    case DType::int8:
    case DType::uint8:
    case DType::boolean:
      return 1;
    case DType::float16:
    case DType::bfloat16:
    case DType::int16:
      return 2;
    case DType::float32:
    case DType::int32:
      return 4;
    case DType::float64:
    case DType::int64:
    case DType::complex64:
      return 8;
    case DType::complex128:
      return 16;
  }
  throw InternalError("element_bytes: not a dtype");
}

std::string_view name_of(DType dtype) {
  switch (dtype) {
    case DType::float32:
      return "float32";
    case DType::float64:
      return "float64";
    case DType::float16:
      return "float16";
    case DType::bfloat16:
      return "bfloat16";
    case DType::int64:
      return "int64";
    case DType::int32:
      return "int32";
    case DType::int16:
      return "int16";
    case DType::int8:
      return "int8";
    case DType::uint8:
      return "uint8";
    case DType::boolean:
      return "bool";
    case DType::complex64:
      return "complex64";
    case DType::complex128:
      return "complex128";
  }
  throw InternalError("name_of: not a dtype");
}

}  // namespace plimsoll
