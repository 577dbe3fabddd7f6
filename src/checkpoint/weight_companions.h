// A 16-bit parameter and what it keeps beside itself (`optimizer.weight_update`), as the float32 that both stand for.
#pragma once

#include <ATen/core/Tensor.h>

#include <string>

namespace plimsoll {

/// The kinds of state "optimizer.KIND.PARAMETER" that hold more bits of a parameter.
constexpr const char* kCompanionKinds[] = {"remainder", "compensation", "master"};

/// Whether a companion of `kind` that is so may stand beside `parameter`: of its sizes, and of the type that such a
/// companion has.
bool companion_fits(const std::string& kind, at::IntArrayRef parameter_sizes, at::ScalarType parameter_type,
                    at::IntArrayRef sizes, at::ScalarType type);

/// The float32 that a parameter and its companion stand for; without one (undefined) the parameter's own value.
at::Tensor whole_weights(const at::Tensor& parameter, const at::Tensor& companion);

/// Sets both from float32 weights: the parameter is rounded as the updates round it, the companion has the rest.
void put_whole_weights(const at::Tensor& whole, const std::string& kind, const at::Tensor& parameter,
                       const at::Tensor& companion);

}  // namespace plimsoll
