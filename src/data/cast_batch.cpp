#include "data/cast_batch.h"

#include <cmath>
#include <cstring>
#include <utility>

namespace plimsoll {
namespace {

uint16_t bfloat16_of(float number) {
  uint32_t bits = 0;
  std::memcpy(&bits, &number, sizeof bits);
  if (std::isnan(number)) return 0x7fc0;
  return static_cast<uint16_t>((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

}  // namespace

void cast_to_bfloat16(Batch& batch) {
  for (BatchField& field : batch.fields) {
    if (field.dtype != DType::float32) continue;
    const size_t count = field.bytes.size() / sizeof(float);
    const auto* from = reinterpret_cast<const float*>(field.bytes.data());
    std::vector<std::byte> narrow(count * sizeof(uint16_t));
    auto* to = reinterpret_cast<uint16_t*>(narrow.data());
    for (size_t i = 0; i < count; ++i) to[i] = bfloat16_of(from[i]);
    field.bytes = std::move(narrow);
    field.dtype = DType::bfloat16;
  }
}

}  // namespace plimsoll
