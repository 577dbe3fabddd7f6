#include "ops/libtorch_types.h"

#include <string>

#include "plimsoll/error.h"

namespace plimsoll {

DType dtype_of(c10::ScalarType type) {
  switch (type) {
    case c10::kFloat:
      return DType::float32;
    case c10::kDouble:
      return DType::float64;
    case c10::kHalf:
      return DType::float16;
    case c10::kBFloat16:
      return DType::bfloat16;
    case c10::kLong:
      return DType::int64;
    case c10::kInt:
      return DType::int32;
    case c10::kShort:
      return DType::int16;
    case c10::kChar:
      return DType::int8;
    case c10::kByte:
      return DType::uint8;
    case c10::kBool:
      return DType::boolean;
    case c10::kComplexFloat:
      return DType::complex64;
    case c10::kComplexDouble:
      return DType::complex128;
    default:
      break;
  }
  throw UserError(std::string("element type ") + c10::toString(type) +
                  " cannot be recorded; allowed are float64, float32, " +
                  "float16, bfloat16, int64, int32, int16, int8, uint8, bool, complex64 and complex128");
}

c10::ScalarType scalar_type_of(DType dtype) {
  switch (dtype) {
    case DType::float32:
      return c10::kFloat;
    case DType::float64:
      return c10::kDouble;
    case DType::float16:
      return c10::kHalf;
    case DType::bfloat16:
      return c10::kBFloat16;
    case DType::int64:
      return c10::kLong;
    case DType::int32:
      return c10::kInt;
    case DType::int16:
      return c10::kShort;
    case DType::int8:
      return c10::kChar;
    case DType::uint8:
      return c10::kByte;
    case DType::boolean:
      return c10::kBool;
    case DType::complex64:
      return c10::kComplexFloat;
    case DType::complex128:
      return c10::kComplexDouble;
  }
  throw InternalError("unknown DType");
}

}  // namespace plimsoll
