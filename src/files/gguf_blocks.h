// Declares ggml's formats of numbers: plain, or quantized in blocks along a row.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>

namespace plimsoll {

/// Types that can be read; the values are ggml's.
enum class GgmlType : uint32_t { f32 = 0, f16 = 1, q4_0 = 2, q4_1 = 3, q8_0 = 8, q6_k = 14, bf16 = 30 };

/// Returns the type with this value; nullopt for others.
std::optional<GgmlType> ggml_type(uint32_t value);

/// Returns "F32, F16, Q4_0, ...", for messages.
std::string ggml_type_names();

/// Number of elements in a block, and its bytes.
struct GgmlBlock {
  int64_t elements, bytes;
};
GgmlBlock block_of(GgmlType type);

/// Returns true if the type is in blocks; the other types are a DType.
bool is_quantized(GgmlType type);

/// Dequantizes blocks of a quantized type; `to` has exactly as many elements as the blocks.
void dequantize_blocks(GgmlType type, std::span<const std::byte> blocks, std::span<float> to);

}  // namespace plimsoll
