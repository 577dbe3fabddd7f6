// Declares the formats of other programs that the weights of each type of model are read from and written in.
#pragma once

#include <filesystem>
#include <functional>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "checkpoint/checkpoint.h"
#include "checkpoint/sliced_state.h"
#include "plimsoll/models.h"
#include "weights/tensor_names.h"

namespace plimsoll::weights {

/// A checkpoint that is written in the format of transformers.
struct HuggingFaceRequest {
  const ModelConfig& model;
  int64_t vocab_size;                                ///< rows of the checkpoint's embedding
  int64_t sequence_length;                           ///< tokens of a text
  DType dtype;                                       ///< dtype of the weights that are written
  std::optional<std::filesystem::path> config_file;  ///< config.json that the job read its architecture from
  /// Returns the rows of a tensor of the checkpoint; nullopt if it has none of that name.
  std::function<std::optional<int64_t>(const std::string& name)> rows;
};

/// A model in the format of transformers: its tensors and its config.json.
struct HuggingFaceModel {
  std::vector<Parameter> parameters;
  nlohmann::json config;
};

struct ModelFormat {
  std::string_view type;  ///< value of `model.type`
  /// Copies model.weights, which are another program's, into the state of the model; nullptr: there is no such format.
  void (*load)(const ModelConfig& model, const NamedTensors& state, const SlicedState& sliced) = nullptr;
  /// Copies the weights of ModelConfig::vision_weights into the model's part; nullptr: the model has no such part.
  void (*load_vision)(const ModelConfig& model, const NamedTensors& state, const SlicedState& sliced) = nullptr;
  const char* part_keys = "model.llm.weights";  ///< keys of weights of parts, for a message
  /// Returns the model in the format of transformers, in the family that has its settings; nullptr: there is no such
  /// family. Throws UserError (usage) if no family has the settings.
  HuggingFaceModel (*to_huggingface)(const HuggingFaceRequest& request) = nullptr;
};

/// Returns the formats of a type of model, or an entry without formats.
ModelFormat model_format(const std::string& type);

/// Returns the types with ModelFormat::to_huggingface: "decoder, mamba".
std::string huggingface_types();

}  // namespace plimsoll::weights
