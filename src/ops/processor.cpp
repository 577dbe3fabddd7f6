#include "ops/processor.h"

#include <ATen/Version.h>
#include <fmt/format.h>
#include <torch/version.h>

#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <fstream>

namespace plimsoll {

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
