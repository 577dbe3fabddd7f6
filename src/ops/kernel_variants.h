// Defines PLIMSOLL_VARIANTS, which compiles a CPU kernel for each useful instruction set.
#pragma once

#include "ops/cpu_capability.h"

// Defines `static result name parameters { body }` for each CpuCapability; a call runs the variant of cpu_capability().
// `arguments` are the parameters' names. Functions and lambdas that the body calls must be always_inline: only inlined
// code is compiled for the body's instruction set.
//
//     PLIMSOLL_VARIANTS(void, halve, (float* x, int64_t count), (x, count), { halve_of(x, count); })
//
// In the body `kNativeBytes` is the size of the set's vector registers in bytes. GCC keeps a wider vector type in
// memory, register by register: products in such types were 50 times as slow.
//
// GCC's target_clones is not used. The loader chooses its clone, no setting can mask that choice, and nothing shows it.
#define PLIMSOLL_VARIANT_BODY(bytes, ...)                  \
  {                                                        \
    [[maybe_unused]] constexpr int kNativeBytes = (bytes); \
    __VA_ARGS__                                            \
  }
#if PLIMSOLL_HAS_VARIANTS
#define PLIMSOLL_VARIANTS(result, name, parameters, arguments, ...)                                                   \
  static result name##_baseline parameters PLIMSOLL_VARIANT_BODY(16, __VA_ARGS__)                                     \
      [[gnu::target("arch=x86-64-v3")]] static result name##_avx2 parameters                                          \
      PLIMSOLL_VARIANT_BODY(32, __VA_ARGS__) [[gnu::target("arch=x86-64-v4")]] static result name##_avx512 parameters \
      PLIMSOLL_VARIANT_BODY(64, __VA_ARGS__) static result name parameters {                                          \
    const ::plimsoll::CpuCapability capability = ::plimsoll::cpu_capability();                                        \
    if (capability == ::plimsoll::CpuCapability::avx512) return name##_avx512 arguments;                              \
    if (capability == ::plimsoll::CpuCapability::avx2) return name##_avx2 arguments;                                  \
    return name##_baseline arguments;                                                                                 \
  }
#else
#define PLIMSOLL_VARIANTS(result, name, parameters, arguments, ...) \
  static result name parameters PLIMSOLL_VARIANT_BODY(16, __VA_ARGS__)
#endif
