// Declares shared helpers of the tests of the optimizer operators: numbers in every format, and packed ones as plain
// vectors.
#pragma once

#include <ATen/ATen.h>
#include <ATen/CPUGeneratorImpl.h>
#include <ATen/Parallel.h>

#include <string>
#include <vector>

#include "ops/formats.h"
#include "ops/optimizer/ops.h"
#include "ops/optimizer/reference.h"

namespace plimsoll::ops::testing {

struct FormatCase {
  const char* name;
  Format format;
  at::ScalarType type;
};
constexpr FormatCase kStateFormats[] = {{"float32", Format::float32, at::kFloat},
                                        {"bfloat16", Format::bfloat16, at::kBFloat16},
                                        {"float16", Format::float16, at::kHalf},
                                        {"8 bits", Format::bits8, at::kByte},
                                        {"4 bits", Format::bits4, at::kChar}};

inline bool is_packed(Format format) {
  return format == Format::bits8 || format == Format::bits4;
}

inline Packed zeros(const FormatCase& format, const at::Tensor& like) {
  const int64_t count = like.numel();
  if (!is_packed(format.format)) return {at::zeros_like(like, like.options().dtype(format.type))};
  const auto codes = format.format == Format::bits8 ? at::zeros(like.sizes(), format.type)
                                                    : at::zeros({bytes_of_bits4(count)}, format.type);
  return {codes, at::zeros({scales_of(format.format, count)}, at::kByte)};
}

inline Packed clone(const Packed& packed) {
  return {packed.values.clone(), packed.scales.defined() ? packed.scales.clone() : at::Tensor()};
}

/// Returns the numbers as float32; packed ones are unpacked by the kernels.
inline at::Tensor numbers(const Packed& packed, const at::Tensor& like, bool squares) {
  return packed.scales.defined() ? unpacked(packed, like, squares) : packed.values.to(at::kFloat, false, true);
}

inline std::vector<float> vector_of(const at::Tensor& tensor) {
  const at::Tensor flat = tensor.to(at::kFloat).contiguous();
  return {flat.const_data_ptr<float>(), flat.const_data_ptr<float>() + flat.numel()};
}

/// Returns the codes of packed numbers, one after another.
inline std::vector<int> codes_of(const Packed& packed, Format format, int64_t count) {
  std::vector<int> codes;
  const auto* bytes = static_cast<const uint8_t*>(packed.values.const_data_ptr());
  for (int64_t i = 0; i < count; ++i)
    codes.push_back(format == Format::bits8 ? bytes[place_of_bits8(i, count)]
                                            : (bytes[i / 32 * 16 + i % 16] >> (i / 16 % 2 * 4)) & 15);
  return codes;
}
inline std::vector<int> scales_of_packed(const Packed& packed) {
  const auto* bytes = packed.scales.const_data_ptr<uint8_t>();
  return {bytes, bytes + packed.scales.numel()};
}

inline at::Generator generator(uint64_t seed) {
  return at::detail::createCPUGenerator(seed);
}
/// Returns the random draw of an operator that is given generator(seed).
inline Draw draw_of(uint64_t seed, uint32_t stream) {
  at::Generator source = generator(seed);
  const uint64_t key = at::check_generator<at::CPUGeneratorImpl>(source)->random64();
  return {{static_cast<uint32_t>(key), static_cast<uint32_t>(key >> 32)}, stream};
}

inline StepScalars step_scalars(double rate, double grad_scale = 1, double skipped = 0) {
  return {at::scalar_tensor(rate, at::kDouble), at::scalar_tensor(grad_scale, at::kFloat),
          at::scalar_tensor(skipped, at::kFloat)};
}

/// Compares the bytes of two tensors, NaN or not.
inline bool same_bytes(at::Tensor a, at::Tensor b) {
  if (a.defined()) a = a.contiguous();
  if (b.defined()) b = b.contiguous();
  return a.defined() == b.defined() &&
         (!a.defined() || (a.nbytes() == b.nbytes() && a.scalar_type() == b.scalar_type() &&
                           std::memcmp(a.const_data_ptr(), b.const_data_ptr(), a.nbytes()) == 0));
}

}  // namespace plimsoll::ops::testing
