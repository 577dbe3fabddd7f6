// Declares the values of plan tensors that are known while a step is recorded: those computed from numbers alone.
#pragma once

#include <ATen/core/Tensor.h>

#include <optional>
#include <unordered_set>
#include <vector>

#include "plimsoll/trace.h"

namespace plimsoll {

/// Returns a CPU tensor with the values that the recorded ops give `view`. nullopt: they depend on a parameter, a
/// buffer of the model, an input or a random number, or take more than 1 MiB to compute.
std::optional<at::Tensor> known_values(const Trace& trace, const View& view);

/// Returns whether the recorded ops compute `buffer` from one of `sources`, or it is one.
bool depends_on(const Trace& trace, BufferId buffer, const std::unordered_set<BufferId>& sources);

/// Calls an operator on CPU tensors, with `arguments` in schema order.
std::vector<c10::IValue> call_on_cpu(const c10::OperatorHandle& op, std::vector<c10::IValue> arguments);

}  // namespace plimsoll
