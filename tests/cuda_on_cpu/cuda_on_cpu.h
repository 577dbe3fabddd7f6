// Runs CUDA kernels on the CPU: device_support.cuh includes this instead of nvcc's built-ins when a C++ compiler
// compiles kernels and launchers for tests.
//
// A block's threads are fibers that run one at a time. They yield only at __syncthreads and the _sync operations of a
// warp. Blocks run one after the other. The order of blocks and threads can be set: a missing barrier shows in one
// order or another. EmulationError reports errors at which a GPU would hang or compute garbage: threads that wait at
// different barriers; lanes that wait for others which never come; a value shuffled from a lane that has none;
// misaligned wide loads; blocks and shared memory larger than the limits of all GPUs from sm_80 on. Not modeled:
// memory ordering between threads that run at the same time, and static shared memory's size. Static __shared__
// variables begin with the values of the block before, dynamic shared memory with NaNs.
#pragma once

#include <vector_types.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <source_location>
#include <stdexcept>

// CUDA's headers define these away for C++ compilers. Blocks run one at a time, so a static variable is a block's.
#undef __shared__
#define __shared__ static
#undef __launch_bounds__
#define __launch_bounds__(...)
#undef __grid_constant__
#define __grid_constant__

#define PLIMSOLL_DYNAMIC_SHARED(type, name) \
  type* const name = reinterpret_cast<type*>(::plimsoll::cuda_on_cpu::dynamic_shared())
#define PLIMSOLL_DEVICE_CHECK(condition) ::plimsoll::cuda_on_cpu::device_check(condition, #condition)

inline uint3 threadIdx, blockIdx;
inline dim3 blockDim, gridDim;

namespace plimsoll::cuda_on_cpu {

/// An error at which a GPU would hang or compute garbage. Thrown out of run(); the block's other threads are abandoned.
struct EmulationError : std::logic_error {
  using std::logic_error::logic_error;
};

/// Orders of blocks, and of a block's threads from one barrier to the next. Shuffled is the same in every run.
enum class Order { ascending, descending, shuffled };
void set_order(Order order);

/// Calls `thread` once for each thread of each block, with threadIdx and the others set.
void run(dim3 grid, dim3 block, size_t shared_bytes, const std::function<void()>& thread);

using Here = std::source_location;

void* dynamic_shared();
void device_check(bool condition, const char* what);
void meet_block(Here here);
enum class Exchange : uint8_t { meet, shuffle, ballot };
/// Return, for the lanes in `mask`, the value of lane `source`, or the lanes whose value is not zero.
uint64_t meet_warp(uint32_t mask, Exchange exchange, uint64_t value, int source, Here here);
int lane();

template <typename T>
T shuffle(uint32_t mask, T value, int source, Here here) {
  static_assert(sizeof(T) <= sizeof(uint64_t));
  uint64_t bits = 0;
  std::memcpy(&bits, &value, sizeof(T));
  bits = meet_warp(mask, Exchange::shuffle, bits, source, here);
  std::memcpy(static_cast<void*>(&value), &bits, sizeof(T));
  return value;
}

}  // namespace plimsoll::cuda_on_cpu

inline void __syncthreads(plimsoll::cuda_on_cpu::Here here = plimsoll::cuda_on_cpu::Here::current()) {
  plimsoll::cuda_on_cpu::meet_block(here);
}
inline void __syncwarp(unsigned mask = 0xffffffffu,
                       plimsoll::cuda_on_cpu::Here here = plimsoll::cuda_on_cpu::Here::current()) {
  plimsoll::cuda_on_cpu::meet_warp(mask, plimsoll::cuda_on_cpu::Exchange::meet, 0, 0, here);
}

// `width`, a power of two, divides the warp into groups; a lane that would read beyond its group keeps its own value.
template <typename T>
T __shfl_sync(unsigned mask, T value, int source, int width = 32,
              plimsoll::cuda_on_cpu::Here here = plimsoll::cuda_on_cpu::Here::current()) {
  const int group = plimsoll::cuda_on_cpu::lane() & ~(width - 1);
  return plimsoll::cuda_on_cpu::shuffle(mask, value, group + (source & (width - 1)), here);
}
template <typename T>
T __shfl_up_sync(unsigned mask, T value, unsigned delta, int width = 32,
                 plimsoll::cuda_on_cpu::Here here = plimsoll::cuda_on_cpu::Here::current()) {
  const int self = plimsoll::cuda_on_cpu::lane(), group = self & ~(width - 1), source = self - static_cast<int>(delta);
  return plimsoll::cuda_on_cpu::shuffle(mask, value, source < group ? self : source, here);
}
template <typename T>
T __shfl_down_sync(unsigned mask, T value, unsigned delta, int width = 32,
                   plimsoll::cuda_on_cpu::Here here = plimsoll::cuda_on_cpu::Here::current()) {
  const int self = plimsoll::cuda_on_cpu::lane(), group = self & ~(width - 1), source = self + static_cast<int>(delta);
  return plimsoll::cuda_on_cpu::shuffle(mask, value, source >= group + width ? self : source, here);
}
template <typename T>
T __shfl_xor_sync(unsigned mask, T value, int bits, int width = 32,
                  plimsoll::cuda_on_cpu::Here here = plimsoll::cuda_on_cpu::Here::current()) {
  const int self = plimsoll::cuda_on_cpu::lane(), group = self & ~(width - 1), source = self ^ bits;
  return plimsoll::cuda_on_cpu::shuffle(mask, value, source >= group + width ? self : source, here);
}
inline unsigned __ballot_sync(unsigned mask, int predicate,
                              plimsoll::cuda_on_cpu::Here here = plimsoll::cuda_on_cpu::Here::current()) {
  return static_cast<unsigned>(
      plimsoll::cuda_on_cpu::meet_warp(mask, plimsoll::cuda_on_cpu::Exchange::ballot, predicate != 0, 0, here));
}
inline int __any_sync(unsigned mask, int predicate,
                      plimsoll::cuda_on_cpu::Here here = plimsoll::cuda_on_cpu::Here::current()) {
  return __ballot_sync(mask, predicate, here) != 0;
}
inline int __all_sync(unsigned mask, int predicate,
                      plimsoll::cuda_on_cpu::Here here = plimsoll::cuda_on_cpu::Here::current()) {
  return __ballot_sync(mask, predicate == 0, here) == 0;
}

inline void __threadfence() {}
inline void __threadfence_block() {}

// Fibers do not interrupt each other.
template <typename T>
T atomicAdd(T* at, T value) {
  const T before = *at;
  *at = before + value;
  return before;
}
template <typename T>
T atomicMax(T* at, T value) {
  const T before = *at;
  if (value > before) *at = value;
  return before;
}
template <typename T>
T atomicMin(T* at, T value) {
  const T before = *at;
  if (value < before) *at = value;
  return before;
}
template <typename T>
T atomicOr(T* at, T value) {
  const T before = *at;
  *at = before | value;
  return before;
}
template <typename T>
T atomicExch(T* at, T value) {
  const T before = *at;
  *at = value;
  return before;
}
template <typename T>
T atomicCAS(T* at, T expected, T value) {
  const T before = *at;
  if (before == expected) *at = value;
  return before;
}

template <typename T>
T __ldg(const T* from) {
  return *from;
}

// One rounding for each operation, never joined into a multiply-add. x86-64's baseline has no multiply-add; nvcc makes
// them unless such functions are used.
inline float __fmul_rn(float a, float b) {
  return a * b;
}
inline float __fadd_rn(float a, float b) {
  return a + b;
}
inline float __fsub_rn(float a, float b) {
  return a - b;
}
inline float __fdiv_rn(float a, float b) {
  return a / b;
}
inline float __fsqrt_rn(float a) {
  return __builtin_sqrtf(a);
}
inline float __fmaf_rn(float a, float b, float c) {
  return __builtin_fmaf(a, b, c);
}
inline double __dmul_rn(double a, double b) {
  return a * b;
}
inline double __dadd_rn(double a, double b) {
  return a + b;
}
inline double __dsub_rn(double a, double b) {
  return a - b;
}

inline uint32_t __float_as_uint(float value) {
  uint32_t bits;
  std::memcpy(&bits, &value, sizeof(bits));
  return bits;
}
inline float __uint_as_float(uint32_t bits) {
  float value;
  std::memcpy(&value, &bits, sizeof(bits));
  return value;
}
inline int32_t __float_as_int(float value) {
  return static_cast<int32_t>(__float_as_uint(value));
}
inline float __int_as_float(int32_t bits) {
  return __uint_as_float(static_cast<uint32_t>(bits));
}
inline uint32_t __umulhi(uint32_t a, uint32_t b) {
  return static_cast<uint32_t>((static_cast<uint64_t>(a) * b) >> 32);
}
inline int __popc(uint32_t bits) {
  return __builtin_popcount(bits);
}
inline int __clz(int32_t bits) {
  return bits == 0 ? 32 : __builtin_clz(static_cast<uint32_t>(bits));
}
inline int __ffs(int32_t bits) {
  return __builtin_ffs(bits);
}
