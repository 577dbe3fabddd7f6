// What a training's state holds of its model's weights, by the names that files of weights have for them.
#pragma once

#include <ATen/core/Tensor.h>

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "checkpoint/checkpoint.h"
#include "checkpoint/sliced_state.h"
#include "plimsoll/trace.h"

namespace plimsoll {

inline constexpr std::string_view kState = "optimizer.", kCodes = "weight_codes", kScales = "weight_scales",
                                  kSecond = "weight_second_scales", kLoraA = "lora_a", kLoraB = "lora_b";

/// "layers.0.mlp.up.weight_codes" -> "layers.0.mlp.up." for "weight_codes"; nothing for other endings.
std::optional<std::string> owner_of(const std::string& name, std::string_view ending);

/// The other half of an adapter, where `name` is one of its two.
std::optional<std::string> other_half(const std::string& name);

/// Of what a 16-bit parameter keeps beside itself (weight_companions.h).
std::string companion_name(const char* kind, const std::string& parameter);

/// Whether `name` is of the scales of quantised codes, which `contains` knows.
template <typename Contains>
bool is_scales(const std::string& name, const Contains& contains) {
  for (std::string_view ending : {kScales, kSecond})
    if (const auto owner = owner_of(name, ending)) return contains(*owner + std::string(kCodes));
  return false;
}

bool is_floating(DType dtype);

std::string sizes_text(at::IntArrayRef sizes);

/// What a training's state wants of a file: the tensor of a name and of sizes.
struct Wanted {
  std::string name;
  std::vector<int64_t> sizes;  // of the whole tensor, also if this rank has a slice of it
  DType dtype;                 // a floating type stands for all of them: weights are cast
  bool optional = false;
  std::function<void(const at::Tensor&)> put;  ///< takes the whole tensor, of any floating type
  at::Tensor as_it_is;  ///< where put() does no more than copy: what it copies into; parts may be copied one by one
};

/// Returns the weights of `state` that a file can have. A rank that has a slice of a weight, or of its companion, takes
/// it out of the whole tensor; elements behind the end of the whole become 0.
std::vector<Wanted> wanted_by(const NamedTensors& state, const SlicedState& sliced = {});

}  // namespace plimsoll
