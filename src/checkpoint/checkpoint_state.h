// Declares conversions of optimizer state from a checkpoint with another state_dtype or weight_update, and the
// float32 value that a 16-bit parameter and its companion represent.
#pragma once

#include <ATen/core/Tensor.h>

#include <functional>
#include <string>
#include <vector>

#include "checkpoint/checkpoint.h"
#include "safetensors/safetensors.h"

namespace plimsoll {

/// A group of tensors of the job that are made from tensors of the file, because name, type or size differ.
struct StateConversion {
  std::vector<std::string> from;  ///< names in the file; none if zeros, or the weights, are the source
  std::vector<std::string> to;    ///< names in the job
  std::function<void()> apply;    ///< writes the job's tensors, once the parameters are loaded; cannot fail
};

/// Returns the conversions that are exact: 8 and 4 bits to float32; 8 and 4 bits to bfloat16 if no value is too small
/// for it; 16 bits to float32; a remainder to a master and back; a compensation to either if float32 holds the sum; no
/// companion to any. `refusals` gets all others, with the setting that would work; they are not converted. Both `file`
/// and `state` must outlive the result.
std::vector<StateConversion> state_conversions(const SafetensorsFile& file, const NamedTensors& state,
                                               std::vector<std::string>& refusals);

/// Kinds of state "optimizer.KIND.PARAMETER" that hold more bits of a parameter.
constexpr const char* kCompanionKinds[] = {"remainder", "compensation", "master"};

/// Returns true if a companion of `kind` with these sizes and this type fits a parameter: it has the parameter's sizes,
/// and the type of that kind of companion.
bool companion_fits(const std::string& kind, at::IntArrayRef parameter_sizes, at::ScalarType parameter_type,
                    at::IntArrayRef sizes, at::ScalarType type);

/// Returns the float32 value that a parameter and its companion represent; without a companion (undefined), the
/// parameter's own value.
at::Tensor whole_weights(const at::Tensor& parameter, const at::Tensor& companion);

/// Sets both from float32 weights: the parameter is rounded as the updates round it, the companion has the rest.
void put_whole_weights(const at::Tensor& whole, const std::string& kind, const at::Tensor& parameter,
                       const at::Tensor& companion);

}  // namespace plimsoll
