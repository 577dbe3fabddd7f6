// Declares the weights of a training's state that can be loaded, by the names that files of weights use.
#pragma once

#include <ATen/core/Tensor.h>

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "checkpoint/checkpoint.h"
#include "checkpoint/checkpoint_state.h"
#include "plimsoll/trace.h"

namespace plimsoll {

inline constexpr std::string_view kState = "optimizer.", kCodes = "weight_codes", kScales = "weight_scales",
                                  kSecond = "weight_second_scales", kLoraA = "lora_a", kLoraB = "lora_b";

/// Returns the owner of a name: "layers.0.mlp.up.weight_codes" -> "layers.0.mlp.up." for "weight_codes"; nullopt for
/// other endings.
std::optional<std::string> owner_of(const std::string& name, std::string_view ending);

/// Returns the name of the other half of an adapter if `name` is one half; else nullopt.
std::optional<std::string> other_half(const std::string& name);

/// Returns the name of the companion of a 16-bit parameter (checkpoint/checkpoint_state.h).
std::string companion_name(const char* kind, const std::string& parameter);

/// Returns true if `name` is the scales of quantized codes, which `contains` knows.
template <typename Contains>
bool is_scales(const std::string& name, const Contains& contains) {
  for (std::string_view ending : {kScales, kSecond})
    if (const auto owner = owner_of(name, ending)) return contains(*owner + std::string(kCodes));
  return false;
}

bool is_floating(DType dtype);

std::string sizes_text(at::IntArrayRef sizes);

/// A weight that a training's state reads from a file: a tensor of a name and of sizes.
struct WeightSlot {
  std::string name;
  std::vector<int64_t> sizes;  // sizes of the whole tensor, also if this rank has a slice of it
  DType dtype;                 // a floating type represents all floating types: weights are cast
  bool optional = false;
  std::function<void(const at::Tensor&)> put;  ///< accepts the whole tensor, of any floating type
  at::Tensor copy_target;  ///< the target of put() if put() only copies; parts may then be copied one by one
};

/// Returns the weights of `state` that a file can have. A rank with a slice of a weight, or of its companion, copies it
/// from the whole tensor. Elements after the end of the whole become 0.
std::vector<WeightSlot> weight_slots(const NamedTensors& state, const SlicedState& sliced = {});

}  // namespace plimsoll
