// What the optimizer keeps for one parameter: which optimizer it gets, running means in their formats, and what a
// 16-bit parameter keeps beside itself.
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
  at::Tensor gradient;  ///< undefined: the parameter takes no part in the loss and is left alone
  /// Where the gradient is an accumulator in blocks of 8 bits (ops/optimizer/ops.h): its scales; otherwise undefined.
  at::Tensor gradient_scales = {};
  bool embedding = false;  ///< the weight of an embedding: muon leaves it to AdamW
  /// Where this rank updates a slice of the parameter: `value` and `gradient` are slices, flat.
  std::optional<optimizer::ParameterSlice> slice = std::nullopt;

  /// The whole parameter.
  const at::Tensor& model_tensor() const { return slice ? slice->parameter : value; }
};

/// Returns model_tensor() of each.
std::vector<at::Tensor> model_tensors(const std::vector<OptimizedParameter>& parameters);

/// A tensor of optimizer state, for checkpoints: "optimizer.exp_avg.layers.0.weight".
struct NamedState {
  std::string name;
  at::Tensor tensor;
  std::vector<int64_t> whole_sizes = {};  ///< where `tensor` is this rank's slice (NamedView); empty: it is the whole
};

namespace optimizer {

/// Which update a parameter gets. Muon's and Adafactor's are for matrices.
enum class Kind : uint8_t { adamw, lion, sgd, adafactor, muon };

/// Tensors of fewer elements keep float32 state where fewer bits are asked for.
constexpr int64_t kFewestShrunk = 4096;

struct ParameterState {
  Kind kind = Kind::adamw;
  ops::Packed first, second;  ///< exp_avg, momentum or row means; exp_avg_sq or column means; undefined: none
  at::Tensor companion;       ///< of a 16-bit parameter, where `weight_update` has one
  ops::UpdateRounding rounding;
};

/// Makes the state of `parameter`, zeros and copies on its device, and appends its tensors to `named`. Throws UserError
/// where `config` does not suit the parameter. `seed` is the parameter's own.
ParameterState make_parameter_state(const OptimizerConfig& config, const OptimizedParameter& parameter, int64_t seed,
                                    std::vector<NamedState>& named);

/// Which update `config` has for the parameter.
Kind kind_of(const OptimizerConfig& config, const OptimizedParameter& parameter);

/// Throws UserError for a pattern of `optimizer.adamw_parameters` that names none of the model's parameters, those that
/// are frozen among them; the usual patterns may: they are for models of all kinds.
void check_patterns(const OptimizerConfig& config, const std::vector<std::string>& names);

}  // namespace optimizer
}  // namespace plimsoll
