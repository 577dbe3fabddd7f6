// Computes the float32 value that a 16-bit parameter and its companion (`optimizer.weight_update`) represent together.
#pragma once

#include <ATen/core/Tensor.h>

#include <string>

namespace plimsoll {

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
