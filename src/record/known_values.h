// Declares the values of plan tensors that are known while a step is recorded: those computed from numbers alone.
#pragma once

#include <ATen/core/Tensor.h>

#include <optional>
#include <vector>

#include "plimsoll/trace.h"

namespace plimsoll {

/// Returns a CPU tensor with the values that the recorded ops give `view`. nullopt: they depend on a parameter, a
/// buffer of the model, an input or a random number, or take more than 1 MiB to compute.
std::optional<at::Tensor> known_values(const Trace& trace, const View& view);

/// Returns whether the recorded ops compute `buffer` from a parameter or another tensor of the model.
bool depends_on_model(const Trace& trace, BufferId buffer);

/// Calls an operator on CPU tensors, with `arguments` in schema order.
std::vector<c10::IValue> call_on_cpu(const c10::OperatorHandle& op, std::vector<c10::IValue> arguments);

}  // namespace plimsoll
