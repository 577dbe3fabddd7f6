// Declares fine_tune, which freezes, adapts and quantizes the parts of a model that a job names. Declares the names
// that other programs use for these parts, and the dtypes of weights.
#pragma once

#include <c10/core/ScalarType.h>
#include <torch/nn/module.h>

#include <optional>
#include <string>
#include <vector>

#include "plimsoll/options.h"

namespace plimsoll::model {

/// The dtypes of a model's adapters and of its frozen weights.
struct FineTuneTypes {
  c10::ScalarType adapters = c10::ScalarType::Float;
  /// The dtype that frozen weights of linear layers are held in; empty: the dtype they were made in. Autocast
  /// multiplies them in its lower precision anyway. Held in that precision, they need no cast and no second copy, and
  /// every result is the same.
  std::optional<c10::ScalarType> frozen_linear;
};

/// Applies `how` to the model in place, before its step is recorded. Adapters freeze all parameters; then the patterns
/// of `freeze` and `train` set requires_grad, in this order. Adds adapters to our linear layers and quantizes their
/// weights in blocks. Throws UserError if a pattern matches nothing (the message names the nearest paths), or one of
/// `lora` or `quantize` matches no plimsoll::Linear. Throws UserError if a weight would be both trained and quantized,
/// or if no trainable parameter is left.
void fine_tune(torch::nn::Module& model, const FineTuning& how, const FineTuneTypes& types);

/// Returns the patterns of `paths` that hold the layers that the last part of `pattern` names in other programs
/// ("q_proj", "*.self_attn.v_proj", "all-linear"). Numbers become `*`: {"layers.*.attention.qkv"}. Returns an empty
/// list if the model has no such layer, and nullopt if no known program uses the name.
std::optional<std::vector<std::string>> own_names(const std::string& pattern, const std::vector<std::string>& paths);

/// Returns how the model holds `pattern` and its neighbors: "query, key and value are one matrix". Returns "" if the
/// layer has only another name.
std::string meaning_of_foreign(const std::string& pattern);

}  // namespace plimsoll::model

namespace plimsoll {

inline bool is_mixed(Precision precision) {
  return precision == Precision::fp16_mixed || precision == Precision::bf16_mixed;
}

/// Returns the dtype that the model's weights are made in. It follows from the precision and from the user's options
/// for weights.
c10::ScalarType weight_type(const TrainingOptions& options);

/// Returns the dtype in memory of an input that is declared as `declared`. Without mixed precision floating-point
/// inputs have the weights' dtype, as in Lightning. They are cast on the host, so the device holds no wider copy.
c10::ScalarType input_type(const TrainingOptions& options, c10::ScalarType declared);

/// Returns the dtypes of adapters and of frozen weights of linear layers.
model::FineTuneTypes fine_tune_types(const TrainingOptions& options);

}  // namespace plimsoll
