// Declares slices of parameters for ranks that each update a part of the model, and the state that the optimizer
// keeps for one parameter.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "ops/optimizer/ops.h"
#include "plimsoll/options.h"

namespace plimsoll::optimizer {

/// Returns the elements of each rank's slice of a parameter of `elements` elements, a multiple of 1024. Returns 0 if
/// every rank has the whole parameter: it has fewer than 4096 elements for each rank, or their number is no multiple of
/// 128 (the last block of 8- and 4-bit state would be split differently in a slice).
int64_t slice_elements(int64_t elements, int64_t ranks);

/// The slice of a parameter that this rank updates.
///
///     whole, padded   | slice of rank 0 | slice of rank 1 | slice of rank 2 .... padding |     in the order of memory
///
/// All slices of a parameter have the same number of elements, so that the ranks have the same plan. They begin at
/// borders of the blocks of 8- and 4-bit state, of random rounding and of norms. The update of all slices has therefore
/// the bits of an update of the whole parameter.
struct ParameterSlice {
  at::Tensor parameter;  ///< the whole parameter, as in the model
  at::Tensor padded;     ///< the memory of `parameter`, flat, [ranks * elements]
  at::Tensor own;        ///< the slice, flat, [elements]: part of `padded`, or with `apart` in memory of its own
  int64_t rank = 0, ranks = 1;
  int64_t elements = 0;  ///< number of elements of each slice
  bool apart = false;    ///< the rank stores only its slice; the whole parameter exists while ops use it

  int64_t first_element() const { return rank * elements; }
};

}  // namespace plimsoll::optimizer

namespace plimsoll {

/// A parameter that the optimizer updates, and its gradient.
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

/// The state that the optimizer keeps for one parameter: its kind of update, running means in their formats, and the
/// companion of a 16-bit parameter.
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
