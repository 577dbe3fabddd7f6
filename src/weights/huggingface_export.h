// Declares the formats that a model can be exported to, and the export as a folder of Hugging Face.
#pragma once

#include <nlohmann/json.hpp>

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "checkpoint/checkpoint.h"
#include "checkpoint/checkpoint_state.h"
#include "plimsoll/models.h"
#include "weights/checkpoint_weights.h"
#include "weights/tensor_names.h"

namespace plimsoll {

// The export of a checkpoint's decoder as a folder that Hugging Face's transformers loads.

constexpr int64_t kShardBytes = 5'000'000'000;  ///< transformers' own limit

/// Writes config.json and model.safetensors into the folder `out`, which is created and must be empty. A model of more
/// than `shard_bytes` becomes several files of at most `shard_bytes` (a larger tensor by itself) with
/// model.safetensors.index.json. The config.json is written last. If `model` names a config.json (`config`, `weights`)
/// that describes the same architecture, a copy with the new dtype is written. Otherwise the family that has the
/// model's settings is chosen, and its config.json gets `sequence_length` as the length of a text. Files of the
/// tokenizer and of generation are copied from the folder of `model.weights`; if the training had another `tokenizer`,
/// its files are copied instead. Holds one parameter at a time in memory.
/// `tokenizer` is the file that the training encoded its texts with; empty: one that no file can be copied of; nullopt:
/// that of the weights.
/// Throws UserError as export_weights does. Throws UserError (usage) if no family has the settings or the model is
/// neither a decoder nor Mamba. Adapters must be merged for the same reason: transformers has no place for ours.
ExportReport export_huggingface(const ModelConfig& model, int64_t sequence_length,
                                const std::filesystem::path& checkpoint, const std::filesystem::path& out,
                                const ExportOptions& options, int64_t shard_bytes = kShardBytes,
                                const std::optional<std::filesystem::path>& tokenizer = {}, const Budget& budget = {});

}  // namespace plimsoll

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
