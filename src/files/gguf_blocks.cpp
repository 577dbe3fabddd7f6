#include "files/gguf_blocks.h"

#include <array>
#include <bit>
#include <cstring>

#include "plimsoll/error.h"

namespace plimsoll {
namespace {

struct Known {
  GgmlType type;
  const char* name;
  GgmlBlock block;
};
constexpr std::array<Known, 7> kKnown = {{{GgmlType::f32, "F32", {1, 4}},
                                          {GgmlType::f16, "F16", {1, 2}},
                                          {GgmlType::bf16, "BF16", {1, 2}},
                                          {GgmlType::q8_0, "Q8_0", {32, 34}},
                                          {GgmlType::q4_0, "Q4_0", {32, 18}},
                                          {GgmlType::q4_1, "Q4_1", {32, 20}},
                                          {GgmlType::q6_k, "Q6_K", {256, 210}}}};

float half_at(const uint8_t* from) {
  uint16_t bits = 0;
  std::memcpy(&bits, from, sizeof bits);
  const uint32_t magnitude = uint32_t{bits & 0x7fffu} << 13, sign = uint32_t{bits & 0x8000u} << 16;
  // Multiplying by 2^112 moves the exponent into float's range and also converts subnormal halves correctly.
  const float finite = std::bit_cast<float>(magnitude) * 0x1p112f;
  const uint32_t value = magnitude >= (31u << 23) ? magnitude + (224u << 23) : std::bit_cast<uint32_t>(finite);
  return std::bit_cast<float>(value | sign);
}

// Layouts: ggml-common.h. A byte has element i in its low half and element i + 16 in its high half.

void q8_0(const uint8_t* from, float* to) {
  const float scale = half_at(from);
  for (int i = 0; i < 32; ++i) to[i] = scale * static_cast<float>(static_cast<int8_t>(from[2 + i]));
}

void q4_0(const uint8_t* from, float* to) {
  const float scale = half_at(from);
  for (int i = 0; i < 16; ++i) {
    to[i] = scale * static_cast<float>((from[2 + i] & 15) - 8);
    to[i + 16] = scale * static_cast<float>((from[2 + i] >> 4) - 8);
  }
}

void q4_1(const uint8_t* from, float* to) {
  const float scale = half_at(from), least = half_at(from + 2);
  for (int i = 0; i < 16; ++i) {
    to[i] = scale * static_cast<float>(from[4 + i] & 15) + least;
    to[i + 16] = scale * static_cast<float>(from[4 + i] >> 4) + least;
  }
}

// Two halves of 128 elements: 64 bytes of low four bits, 32 of high two, 8 scales of 16 elements each.
void q6_k(const uint8_t* from, float* to) {
  const float scale = half_at(from + 208);
  for (int half = 0; half < 2; ++half) {
    const uint8_t *low = from + 64 * half, *high = from + 128 + 32 * half, *scales = from + 192 + 8 * half;
    for (int i = 0; i < 32; ++i)
      for (int quarter = 0; quarter < 4; ++quarter) {
        const int four = quarter < 2 ? low[i + 32 * quarter] & 15 : low[i + 32 * (quarter - 2)] >> 4;
        const int six = (four | (((high[i] >> (2 * quarter)) & 3) << 4)) - 32;
        const auto of_block = static_cast<float>(static_cast<int8_t>(scales[i / 16 + 2 * quarter]));
        to[128 * half + 32 * quarter + i] = scale * of_block * static_cast<float>(six);
      }
  }
}

}  // namespace

std::optional<GgmlType> ggml_type(uint32_t value) {
  for (const Known& each : kKnown)
    if (static_cast<uint32_t>(each.type) == value) return each.type;
  return std::nullopt;
}

std::string ggml_type_names() {
  std::string names;
  for (const Known& each : kKnown) names += (names.empty() ? "" : ", ") + std::string(each.name);
  return names;
}

GgmlBlock block_of(GgmlType type) {
  for (const Known& each : kKnown)
    if (each.type == type) return each.block;
  throw InternalError("block_of: no such type");
}

bool is_quantized(GgmlType type) {
  return block_of(type).elements > 1;
}

void dequantize_blocks(GgmlType type, std::span<const std::byte> blocks, std::span<float> to) {
  const GgmlBlock block = block_of(type);
  const size_t count = blocks.size() / static_cast<size_t>(block.bytes);
  check(is_quantized(type) && count * static_cast<size_t>(block.bytes) == blocks.size() &&
            count * static_cast<size_t>(block.elements) == to.size(),
        "take_apart: whole blocks of a quantized type, and room for their numbers");
  const auto* from = reinterpret_cast<const uint8_t*>(blocks.data());
  void (*const each)(const uint8_t*, float*) = type == GgmlType::q8_0   ? q8_0
                                               : type == GgmlType::q4_0 ? q4_0
                                               : type == GgmlType::q4_1 ? q4_1
                                                                        : q6_k;
  for (size_t i = 0; i < count; ++i)
    each(from + i * static_cast<size_t>(block.bytes), to.data() + i * static_cast<size_t>(block.elements));
}

}  // namespace plimsoll
