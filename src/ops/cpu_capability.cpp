#include "ops/cpu_capability.h"

#include <ATen/Version.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <cstdlib>
#include <fstream>
#include <string>

#include "base/text.h"
#include "ops/torch_version.h"
#include "plimsoll/error.h"

namespace plimsoll {
namespace {

constexpr const char* kVariable = "PLIMSOLL_CPU_CAPABILITY";
constexpr std::array<std::string_view, 3> kNames = {"default", "avx2", "avx512"};

}  // namespace

std::atomic<int8_t> detail::cpu_capability = detail::kNotRead;

std::string_view name_of(CpuCapability capability) {
  return kNames[static_cast<size_t>(capability)];
}

std::optional<CpuCapability> capability_named(std::string_view name) {
  const auto found = std::ranges::find(kNames, name);
  if (found == kNames.end()) return std::nullopt;
  return static_cast<CpuCapability>(found - kNames.begin());
}

CpuCapability highest_cpu_capability() {
#if PLIMSOLL_HAS_VARIANTS
  // These also check that the system saves the registers.
  if (__builtin_cpu_supports("x86-64-v4")) return CpuCapability::avx512;
  if (__builtin_cpu_supports("x86-64-v3")) return CpuCapability::avx2;
#endif
  return CpuCapability::baseline;
}

CpuCapability detail::read_cpu_capability() {
  CpuCapability result = highest_cpu_capability();
  if (const char* value = std::getenv(kVariable); value && *value) {
    const std::optional<CpuCapability> wanted = capability_named(value);
    if (!wanted)
      throw UserError(
          std::string(kVariable) + " is " + in_quotes(value) +
          "; allowed are default, avx2 and avx512, and without it the greatest that the processor has is taken");
    result = std::min(result, *wanted);
  }
  cpu_capability = static_cast<int8_t>(result);
  return result;
}

CpuCapabilityScope::CpuCapabilityScope(CpuCapability capability) : before_(detail::cpu_capability) {
  detail::cpu_capability = static_cast<int8_t>(std::min(capability, highest_cpu_capability()));
}

std::string instruction_masks() {
  std::string text;
  for (const char* name : {"ATEN_CPU_CAPABILITY", "ONEDNN_MAX_CPU_ISA", "DNNL_MAX_CPU_ISA", "MKL_ENABLE_INSTRUCTIONS",
                           "PLIMSOLL_CPU_CAPABILITY", "PLIMSOLL_16BIT_PRODUCTS"})
    if (const char* value = std::getenv(name); value && *value)
      text += fmt::format("{}{}={}", text.empty() ? "" : " ", name, value);
  return text;
}

std::string instruction_masks_in_a_name() {
  std::string masks = instruction_masks();
  for (char& c : masks)
    if (!std::isalnum(static_cast<unsigned char>(c)) && c != '_' && c != '=') c = '-';
  return masks;
}

std::string machine_name() {
  std::ifstream info("/proc/cpuinfo");
  std::string line, model = "unknown processor";
  while (std::getline(info, line)) {
    if (!line.starts_with("model name")) continue;
    model = line.substr(std::min(line.find(':') + 2, line.size()));
    break;
  }
  const std::string masks = instruction_masks();
  return fmt::format("{}, libtorch {} with {}{}{}", model, TORCH_VERSION, at::get_cpu_capability(),
                     masks.empty() ? "" : ", ", masks);
}

}  // namespace plimsoll
