#include "weights/wanted_weights.h"

#include <ATen/ATen.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <map>

#include "checkpoint/weight_companions.h"
#include "ops/dtypes.h"
#include "ops/quantized/quantized_linear.h"

namespace plimsoll {

std::optional<std::string> owner_of(const std::string& name, std::string_view ending) {
  if (!name.ends_with(ending)) return std::nullopt;
  const std::string owner = name.substr(0, name.size() - ending.size());
  return owner.empty() || owner.ends_with('.') ? std::optional(owner) : std::nullopt;
}

std::optional<std::string> other_half(const std::string& name) {
  if (const auto owner = owner_of(name, kLoraA)) return *owner + std::string(kLoraB);
  if (const auto owner = owner_of(name, kLoraB)) return *owner + std::string(kLoraA);
  return std::nullopt;
}

std::string companion_name(const char* kind, const std::string& parameter) {
  return std::string(kState) + kind + "." + parameter;
}

bool is_floating(DType dtype) {
  return dtype == DType::float32 || dtype == DType::float64 || dtype == DType::bfloat16 || dtype == DType::float16;
}

std::string sizes_text(at::IntArrayRef sizes) {
  return fmt::format("[{}]", fmt::join(sizes, ", "));
}

std::vector<Wanted> wanted_by(const NamedTensors& state) {
  std::map<std::string, at::Tensor> known(state.begin(), state.end());
  std::vector<Wanted> wanted;
  for (const auto& [name, tensor] : state) {
    if (name.starts_with(kState) || is_scales(name, [&](const std::string& other) { return known.contains(other); }))
      continue;
    if (const auto owner = owner_of(name, kCodes)) {
      const ops::QuantizedTensors held{tensor, known.at(*owner + std::string(kScales)), [&] {
                                         const auto second = known.find(*owner + std::string(kSecond));
                                         return second == known.end() ? at::Tensor() : second->second;
                                       }()};
      const bool four_bits = tensor.scalar_type() == at::kByte;
      wanted.push_back({*owner + "weight",
                        {tensor.size(0), tensor.size(1) * (four_bits ? 2 : 1)},
                        DType::float32,
                        false,
                        [held, four_bits](const at::Tensor& weight) {
                          const ops::QuantizedTensors made =
                              ops::quantize_weight(weight, four_bits ? "nf4" : "int8", held.second.defined());
                          held.codes.copy_(made.codes);
                          held.scales.copy_(made.scales);
                          if (held.second.defined()) held.second.copy_(made.second);
                        },
                        {}});
      continue;
    }
    wanted.push_back({name, tensor.sizes().vec(), dtype_of(tensor.scalar_type()), other_half(name).has_value(),
                      [parameter = tensor](const at::Tensor& weight) { parameter.copy_(weight); }, tensor});
    for (const char* kind : kCompanionKinds)
      // The next update begins from what the companion says: it is the file's weight too, not the one that was drawn.
      if (const auto companion = known.find(companion_name(kind, name)); companion != known.end()) {
        wanted.back().as_it_is = at::Tensor();
        wanted.back().put = [parameter = tensor, companion = companion->second, kind](const at::Tensor& weight) {
          put_whole_weights(weight.to(at::kFloat).contiguous(), kind, parameter, companion);
        };
      }
  }
  return wanted;
}

}  // namespace plimsoll
