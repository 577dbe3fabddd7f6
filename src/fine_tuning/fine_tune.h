// Declares fine_tune, which freezes, adapts and quantizes the parts of a model that a job names. It runs before the
// model's step is recorded.
#pragma once

#include <c10/core/ScalarType.h>
#include <torch/nn/module.h>

#include <optional>

#include "plimsoll/options.h"

namespace plimsoll::model {

struct FineTuneTypes {
  c10::ScalarType adapters = c10::ScalarType::Float;
  /// The dtype that frozen weights of linear layers are held in; empty: the dtype they were made in. Autocast
  /// multiplies them in its lower precision anyway. Held in that precision, they need no cast and no second copy, and
  /// every result is the same.
  std::optional<c10::ScalarType> frozen_linear;
};

/// Applies `how` to the model in place. Adapters freeze all parameters; then the patterns of `freeze` and `train` set
/// requires_grad, in this order. Adds adapters to our linear layers and quantizes their weights in blocks. Throws
/// UserError if a pattern matches nothing (the message names the nearest paths), or one of `lora` or `quantize` matches
/// no plimsoll::Linear. Throws UserError if a weight would be both trained and quantized, or if no trainable parameter
/// is left.
void fine_tune(torch::nn::Module& model, const FineTuning& how, const FineTuneTypes& types);

}  // namespace plimsoll::model
