// Numbers as ggml keeps them: whole, or quantised in blocks along a row.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>

namespace plimsoll {

/// The types that can be read; the values are ggml's.
enum class GgmlType : uint32_t { f32 = 0, f16 = 1, q4_0 = 2, q4_1 = 3, q8_0 = 8, q6_k = 14, bf16 = 30 };

/// Nothing for others.
std::optional<GgmlType> ggml_type(uint32_t value);

/// "F32, F16, Q4_0, ...", for messages.
std::string ggml_type_names();

/// So many numbers stand in so many bytes.
struct GgmlBlock {
  int64_t elements, bytes;
};
GgmlBlock block_of(GgmlType type);

/// Whether the numbers are in blocks; the others are of a DType.
bool is_quantised(GgmlType type);

/// Takes blocks of a quantised type apart; `to` has room for exactly their numbers.
void take_apart(GgmlType type, std::span<const std::byte> blocks, std::span<float> to);

}  // namespace plimsoll
