// A model's weights in a safetensors file: out of a checkpoint, and into a training that starts from them.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>

#include "checkpoint/checkpoint.h"
#include "checkpoint/sliced_state.h"
#include "plimsoll/export.h"

namespace plimsoll {

/// Writes the model's weights of a checkpoint, whole or not at all; quantised ones are taken apart. Merged weights are
/// summed in float32 and rounded once; where 16-bit weights have kept more bits beside themselves
/// (`optimizer.weight_update`), those count wherever the type is another than the one they are held in. Holds one
/// weight at a time in memory. Throws UserError: a file that is no checkpoint of ours or damaged (failure), one without
/// adapters where they are to be merged (usage).
ExportReport export_weights(const std::filesystem::path& checkpoint, const std::filesystem::path& out,
                            const ExportOptions& options);

/// Copies the weights of `file` into `state`, Training::state(): cast, and quantised, as the state holds them; bits
/// that 16-bit weights keep beside themselves are the file's too. Adapters that the file does not have stay as they
/// are; half of one is refused. What is not floating has the same type in both. Throws UserError where the file is
/// damaged or its tensors are not the model's, naming them; nothing is written then.
/// `key` is the job's that names the file. `sliced`: the tensors of `state` of which this rank has slices.
void load_weights(const std::filesystem::path& file, const NamedTensors& state,
                  const std::string& key = "model.weights", const SlicedState& sliced = {});

}  // namespace plimsoll
