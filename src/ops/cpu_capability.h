// Declares the instruction set that our CPU kernels run with, and PLIMSOLL_VARIANTS, which compiles a kernel for
// each. Declares the identity of the processor, for which measurements are valid.
#pragma once

#include <atomic>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

/// Macro: 1 if kernels are compiled for more than one instruction set, else 0.
#if defined(__x86_64__) && defined(__gnu_linux__) && defined(__OPTIMIZE__) && !defined(__SANITIZE_ADDRESS__) && \
    !defined(__SANITIZE_THREAD__)
#define PLIMSOLL_HAS_VARIANTS 1
#else
#define PLIMSOLL_HAS_VARIANTS 0
#endif

namespace plimsoll {

/// The instruction sets in ascending order. avx2 is x86-64-v3 (with FMA). avx512 is x86-64-v4, and matmuls of bfloat16
/// pairs if the processor has them.
enum class CpuCapability : int8_t { baseline, avx2, avx512 };

/// Returns the name used in PLIMSOLL_CPU_CAPABILITY: "default", "avx2" or "avx512".
std::string_view name_of(CpuCapability capability);
/// Returns nullopt if `name` is none of the three names.
std::optional<CpuCapability> capability_named(std::string_view name);

/// Returns the largest set that this processor has and the kernels were compiled for. Returns `baseline` outside
/// GNU/Linux on x86-64, and in builds for debugging or under sanitizers.
CpuCapability highest_cpu_capability();

namespace detail {
inline constexpr int8_t kNotRead = -1;
extern std::atomic<int8_t> cpu_capability;
CpuCapability read_cpu_capability();
}  // namespace detail

/// Returns the instruction set for kernels: PLIMSOLL_CPU_CAPABILITY if it is set and not empty, at most the largest
/// available one. The variable is read once. Throws UserError if it is none of the three names.
inline CpuCapability cpu_capability() {
  const int8_t known = detail::cpu_capability.load(std::memory_order_relaxed);
  return known == detail::kNotRead ? detail::read_cpu_capability() : static_cast<CpuCapability>(known);
}

/// A scope, for tests, in which kernels run with `capability`, or with the largest available one if that is less.
class CpuCapabilityScope {
 public:
  explicit CpuCapabilityScope(CpuCapability capability);
  ~CpuCapabilityScope() { detail::cpu_capability = before_; }
  CpuCapabilityScope(const CpuCapabilityScope&) = delete;
  CpuCapabilityScope& operator=(const CpuCapabilityScope&) = delete;

 private:
  int8_t before_;
};

}  // namespace plimsoll

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

namespace plimsoll {

/// Returns the set environment variables that keep libraries from using instructions of the processor:
/// "ONEDNN_MAX_CPU_ISA=AVX2". Several are separated by a blank. Empty if none is set.
std::string instruction_masks();

/// Returns instruction_masks() as a part of a file's name.
std::string instruction_masks_in_a_name();

/// Returns the processor, libtorch, the instruction set that libtorch dispatches to, and instruction_masks().
/// Measurements are valid for one machine_name().
std::string machine_name();

}  // namespace plimsoll
