// Declares the state that the optimizer keeps for one parameter: its kind of update, running means in their formats,
// and the companion of a 16-bit parameter.
#pragma once

#include <ATen/core/Tensor.h>

#include <optional>
#include <string>
#include <vector>

#include "ops/optimizer/ops.h"
#include "plimsoll/options.h"
#include "run/optimizer/parameter_slice.h"

namespace plimsoll {

struct OptimizedParameter {
  std::string name;
  at::Tensor value;
  at::Tensor gradient;  ///< undefined: the parameter takes no part in the loss and is not updated
  /// Scales of a gradient that is an accumulator in blocks of 8 bits (ops/optimizer/ops.h); otherwise undefined.
  at::Tensor gradient_scales = {};
  bool embedding = false;  ///< the weight of an embedding: muon leaves it to AdamW
  /// Slice of the parameter that this rank updates; `value` and `gradient` are then slices, flat.
  std::optional<optimizer::ParameterSlice> slice = std::nullopt;

  /// Returns the whole parameter.
  const at::Tensor& model_tensor() const { return slice ? slice->parameter : value; }
};

/// Returns model_tensor() of each.
std::vector<at::Tensor> model_tensors(const std::vector<OptimizedParameter>& parameters);

/// A tensor of optimizer state, for checkpoints: "optimizer.exp_avg.layers.0.weight".
struct NamedState {
  std::string name;
  at::Tensor tensor;
  std::vector<int64_t> whole_sizes = {};  ///< sizes of the whole tensor if `tensor` is this rank's slice (NamedView);
                                          ///< empty: `tensor` is the whole
};

namespace optimizer {

/// Kinds of update of a parameter. Muon's and Adafactor's are for matrices.
enum class Kind : uint8_t { adamw, lion, sgd, adafactor, muon };

/// Number of elements below which a tensor keeps float32 state, even if state_dtype is 8bit, 4bit or bfloat16.
constexpr int64_t kMinShrunk = 4096;

struct ParameterState {
  Kind kind = Kind::adamw;
  ops::Packed first, second;  ///< exp_avg, momentum or row means; exp_avg_sq or column means; undefined: none
  at::Tensor companion;       ///< extra tensor of a 16-bit parameter, if `weight_update` has one
  ops::UpdateRounding rounding;
};

/// Makes the state of `parameter`, zeros and copies on its device, and appends its tensors to `named`. Throws UserError
/// if `config` does not suit the parameter. `seed` is the parameter's own.
ParameterState make_parameter_state(const OptimizerConfig& config, const OptimizedParameter& parameter, int64_t seed,
                                    std::vector<NamedState>& named);

/// Returns the kind of update that `config` sets for the parameter.
Kind kind_of(const OptimizerConfig& config, const OptimizedParameter& parameter);

/// Throws UserError for a pattern of `optimizer.adamw_parameters` that matches none of the model's parameters, frozen
/// ones included. The usual patterns may match none, because they are for models of all kinds.
void check_patterns(const OptimizerConfig& config, const std::vector<std::string>& names);

}  // namespace optimizer
}  // namespace plimsoll
