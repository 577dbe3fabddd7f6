// The instruction set that our own CPU kernels run with.
#pragma once

#include <atomic>
#include <cstdint>
#include <optional>
#include <string_view>

/// Whether kernels are compiled for more than one instruction set (ops/kernel_variants.h).
#if defined(__x86_64__) && defined(__gnu_linux__) && defined(__OPTIMIZE__) && !defined(__SANITIZE_ADDRESS__) && \
    !defined(__SANITIZE_THREAD__)
#define PLIMSOLL_HAS_VARIANTS 1
#else
#define PLIMSOLL_HAS_VARIANTS 0
#endif

namespace plimsoll {

/// In the order of what they can do. avx2 is x86-64-v3 (with FMA), avx512 is x86-64-v4 and what the processor has
/// beside it (products of bfloat16 pairs).
enum class CpuCapability : int8_t { baseline, avx2, avx512 };

/// As PLIMSOLL_CPU_CAPABILITY says it: "default", "avx2" or "avx512".
std::string_view name_of(CpuCapability capability);
/// Nothing where it is none of the three.
std::optional<CpuCapability> capability_named(std::string_view name);

/// The greatest that this processor has and the kernels were compiled for: `baseline` elsewhere than on GNU/Linux on
/// x86-64, and in builds for debugging or under sanitizers.
CpuCapability greatest_cpu_capability();

namespace detail {
inline constexpr int8_t kNotRead = -1;
extern std::atomic<int8_t> cpu_capability;
CpuCapability read_cpu_capability();
}  // namespace detail

/// What kernels are to run with: PLIMSOLL_CPU_CAPABILITY where it is set and not empty, but never more than the
/// greatest. The variable is read once. Throws UserError where it says anything else than the three names.
inline CpuCapability cpu_capability() {
  const int8_t known = detail::cpu_capability.load(std::memory_order_relaxed);
  return known == detail::kNotRead ? detail::read_cpu_capability() : static_cast<CpuCapability>(known);
}

/// For tests: kernels run with `capability`, or the greatest if that is less, while this lives.
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
