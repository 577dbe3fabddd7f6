// Declares the instruction set that our own CPU kernels run with.
#pragma once

#include <atomic>
#include <cstdint>
#include <optional>
#include <string_view>

/// Macro: 1 if kernels are compiled for more than one instruction set (ops/kernel_variants.h), else 0.
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
