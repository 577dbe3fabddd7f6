// Freezes, adapts and quantises the parts of a model that a job names, before its step is recorded.
#pragma once

#include <c10/core/ScalarType.h>
#include <torch/nn/module.h>

#include <optional>

#include "plimsoll/options.h"

namespace plimsoll::model {

struct FineTuneTypes {
  c10::ScalarType adapters = c10::ScalarType::Float;
  /// What frozen weights of linear layers are held in; empty: as they were made. Under autocast they are multiplied in
  /// its lower precision anyway: held in it, nothing is cast and nothing kept twice, and every result is the same.
  std::optional<c10::ScalarType> frozen_linear;
};

/// Applies `how` to the model in place: requires_grad is taken from what is frozen, adapters are added to linear layers
/// of ours and their weights put into blocks. Throws UserError for a pattern that matches nothing (naming the nearest
/// paths), one of `lora` or `quantize` that matches no plimsoll::Linear, a weight that is to be trained and quantised,
/// and a model of which nothing is left to train.
void fine_tune(torch::nn::Module& model, const FineTuning& how, const FineTuneTypes& types);

}  // namespace plimsoll::model
