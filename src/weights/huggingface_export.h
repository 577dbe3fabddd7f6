// Declares the export of a checkpoint's decoder as a folder that Hugging Face's transformers loads.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>

#include "plimsoll/models.h"
#include "weights/checkpoint_weights.h"

namespace plimsoll {

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
                                const std::optional<std::filesystem::path>& tokenizer = {});

}  // namespace plimsoll
