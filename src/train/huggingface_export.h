// A checkpoint's decoder as a folder that Hugging Face's transformers loads.
#pragma once

#include <cstdint>
#include <filesystem>

#include "plimsoll/job.h"
#include "train/weights_file.h"

namespace plimsoll {

constexpr int64_t kShardBytes = 5'000'000'000;  ///< transformers' own limit

/// Writes config.json and model.safetensors, or several of at most `shard_bytes` (a larger tensor by itself) with
/// model.safetensors.index.json, into the folder `out`, which is made and must be empty; the config.json last. Where
/// the job has a config.json of its own (model.config, model.weights) that is the one written, with the new type;
/// otherwise the family is the one that has the job's settings. Holds one parameter at a time in memory. Throws
/// UserError as export_weights does, and (usage) where no family has the settings, the model is no decoder, or adapters
/// are not merged: transformers has no place for ours.
ExportReport export_huggingface(const Job& job, const std::filesystem::path& checkpoint,
                                const std::filesystem::path& out, const ExportOptions& options,
                                int64_t shard_bytes = kShardBytes);

}  // namespace plimsoll
