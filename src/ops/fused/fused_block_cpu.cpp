#include "ops/fused/fused_series.h"

#include "ops/cpu_capability.h"
#include "ops/lanes.h"
#include "plimsoll/error.h"

namespace plimsoll::ops {
namespace {

using namespace lanes;
using c10::BFloat16;
using c10::Half;

PLIMSOLL_INLINE Floats rounded_to_bfloat16(Floats value) {
  const Words bits = reinterpret_cast<Words>(value);
  const Words rounded = (bits + 0x7fffu + ((bits >> 16) & 1u)) & 0xffff0000u;
  const Words nan = (bits & 0xffff0000u) | 0x400000u;
  return reinterpret_cast<Floats>(select(reinterpret_cast<Words>(is_nan(value)), nan, rounded));
}
PLIMSOLL_INLINE Floats rounded_to_half(Floats value) {
  Half narrow[kLanes];
  store(narrow, value);
  return load(static_cast<const Half*>(narrow));
}
PLIMSOLL_INLINE Floats square_root(Floats value) {
  for (int64_t i = 0; i < kLanes; ++i) value[i] = __builtin_sqrtf(value[i]);
  return value;
}
PLIMSOLL_INLINE Floats sign_cleared(Floats value) {
  return reinterpret_cast<Floats>(reinterpret_cast<Words>(value) & 0x7fffffffu);
}
PLIMSOLL_INLINE Floats sign_changed(Floats value) {
  return reinterpret_cast<Floats>(reinterpret_cast<Words>(value) ^ 0x80000000u);
}

// Computes one element with libtorch's formulas, in its order of operations.
template <Opcode opcode>
PLIMSOLL_INLINE Floats result_of(const Floats& a, const Floats& b, const Floats& c) {
  const Floats one = splat<Floats>(1.0f);
  if constexpr (opcode == Opcode::cast) return a;
  if constexpr (opcode == Opcode::add) return a + b;
  if constexpr (opcode == Opcode::sub) return a - b;
  if constexpr (opcode == Opcode::mul) return a * b;
  if constexpr (opcode == Opcode::div) return a / b;
  if constexpr (opcode == Opcode::neg) return sign_changed(a);
  if constexpr (opcode == Opcode::abs) return sign_cleared(a);
  if constexpr (opcode == Opcode::sqrt) return square_root(a);
  if constexpr (opcode == Opcode::rsqrt) return one / square_root(a);
  if constexpr (opcode == Opcode::reciprocal) return one / a;
  if constexpr (opcode == Opcode::square) return a * a;
  if constexpr (opcode == Opcode::cube) return a * a * a;
  if constexpr (opcode == Opcode::clamp_min) return where_below(a, b, b, a);
  if constexpr (opcode == Opcode::clamp_max) return where_below(b, a, b, a);
  if constexpr (opcode == Opcode::threshold_backward)  // 0 where b <= c, which no NaN is
    return select(Ints(is_nan(b) | is_nan(c)), a, where_below(c, b, a, Floats{}));
  if constexpr (opcode == Opcode::sigmoid_backward) return a * (one - b) * b;
}

template <Opcode opcode, DType dtype>
PLIMSOLL_INLINE void loop(const FusedBlockStep& step, int64_t count) {
  constexpr int kOperands = opcode == Opcode::threshold_backward                                ? 3
                            : opcode >= Opcode::clamp_min && opcode <= Opcode::sigmoid_backward ? 2
                            : opcode >= Opcode::add && opcode <= Opcode::div                    ? 2
                                                                                                : 1;
  float* const to = step.to;
  const float *const a = step.from[0], *const b = step.from[1], *const c = step.from[2];
  PLIMSOLL_FOR_LANES(i, partial, count) {
    const Floats x = load_some(a + i, partial);
    const Floats y = kOperands > 1 ? load_some(b + i, partial) : Floats{};
    const Floats z = kOperands > 2 ? load_some(c + i, partial) : Floats{};
    Floats value = result_of<opcode>(x, y, z);
    if constexpr (dtype == DType::bfloat16) value = rounded_to_bfloat16(value);
    if constexpr (dtype == DType::float16) value = rounded_to_half(value);
    store_some(to + i, value, partial);
  }
}

template <DType dtype>
PLIMSOLL_INLINE bool step_of(const FusedBlockStep& step, int64_t count) {
  switch (step.opcode) {
#define PLIMSOLL_OPCODE(name)               \
  case Opcode::name:                        \
    loop<Opcode::name, dtype>(step, count); \
    return true;
    PLIMSOLL_OPCODE(cast)
    PLIMSOLL_OPCODE(add)
    PLIMSOLL_OPCODE(sub)
    PLIMSOLL_OPCODE(mul)
    PLIMSOLL_OPCODE(div)
    PLIMSOLL_OPCODE(neg)
    PLIMSOLL_OPCODE(abs)
    PLIMSOLL_OPCODE(sqrt)
    PLIMSOLL_OPCODE(rsqrt)
    PLIMSOLL_OPCODE(reciprocal)
    PLIMSOLL_OPCODE(square)
    PLIMSOLL_OPCODE(cube)
    PLIMSOLL_OPCODE(clamp_min)
    PLIMSOLL_OPCODE(clamp_max)
    PLIMSOLL_OPCODE(threshold_backward)
    PLIMSOLL_OPCODE(sigmoid_backward)
#undef PLIMSOLL_OPCODE
    default:
      return false;
  }
}

template <typename T>
PLIMSOLL_INLINE void load_lanes(float* to, const T* from, int64_t count) {
  PLIMSOLL_FOR_LANES(i, partial, count) store_some(to + i, load_some(from + i, partial), partial);
}
template <typename T>
PLIMSOLL_INLINE void store_lanes(T* to, const float* from, int64_t count) {
  PLIMSOLL_FOR_LANES(i, partial, count) store_some(to + i, load_some(from + i, partial), partial);
}
template <typename T>
PLIMSOLL_INLINE void load_numbers(float* to, const T* from, int64_t count) {
  for (int64_t i = 0; i < count; ++i) to[i] = static_cast<float>(from[i]);
}

PLIMSOLL_VARIANTS(bool, step_f32, (const FusedBlockStep& step, int64_t count), (step, count),
                  { return step_of<DType::float32>(step, count); })
PLIMSOLL_VARIANTS(bool, step_bf16, (const FusedBlockStep& step, int64_t count), (step, count),
                  { return step_of<DType::bfloat16>(step, count); })
PLIMSOLL_VARIANTS(bool, step_f16, (const FusedBlockStep& step, int64_t count), (step, count),
                  { return step_of<DType::float16>(step, count); })
PLIMSOLL_VARIANTS(void, load_bf16, (float* to, const BFloat16* from, int64_t count), (to, from, count),
                  { load_lanes(to, from, count); })
PLIMSOLL_VARIANTS(void, load_f16, (float* to, const Half* from, int64_t count), (to, from, count),
                  { load_lanes(to, from, count); })
PLIMSOLL_VARIANTS(void, load_u8, (float* to, const uint8_t* from, int64_t count), (to, from, count),
                  { load_numbers(to, from, count); })
PLIMSOLL_VARIANTS(void, load_i64, (float* to, const int64_t* from, int64_t count), (to, from, count),
                  { load_numbers(to, from, count); })
PLIMSOLL_VARIANTS(void, store_bf16, (BFloat16 * to, const float* from, int64_t count), (to, from, count),
                  { store_lanes(to, from, count); })
PLIMSOLL_VARIANTS(void, store_f16, (Half * to, const float* from, int64_t count), (to, from, count),
                  { store_lanes(to, from, count); })

}  // namespace

void fused_block_step(const FusedBlockStep& step, int64_t count) {
  const bool known = step.dtype == DType::bfloat16  ? step_bf16(step, count)
                     : step.dtype == DType::float16 ? step_f16(step, count)
                                                    : step_f32(step, count);
  if (!known) throw InternalError("plimsoll::fused: " + std::string(name_of(step.opcode)) + " does not run on the CPU");
}

void fused_block_load(float* to, const void* from, DType dtype, int64_t count) {
  switch (dtype) {
    case DType::float32:
      std::memcpy(to, from, static_cast<size_t>(count) * sizeof(float));
      return;
    case DType::bfloat16:
      return load_bf16(to, static_cast<const BFloat16*>(from), count);
    case DType::float16:
      return load_f16(to, static_cast<const Half*>(from), count);
    case DType::boolean:
    case DType::uint8:
      return load_u8(to, static_cast<const uint8_t*>(from), count);
    case DType::int64:
      return load_i64(to, static_cast<const int64_t*>(from), count);
    default:
      throw InternalError("plimsoll::fused: an input of another type");
  }
}

void fused_block_store(void* to, const float* from, DType dtype, int64_t count) {
  switch (dtype) {
    case DType::float32:
      std::memcpy(to, from, static_cast<size_t>(count) * sizeof(float));
      return;
    case DType::bfloat16:
      return store_bf16(static_cast<BFloat16*>(to), from, count);
    case DType::float16:
      return store_f16(static_cast<Half*>(to), from, count);
    default:
      throw InternalError("plimsoll::fused: an output of another type");
  }
}

}  // namespace plimsoll::ops
