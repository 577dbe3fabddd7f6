// Declares the export of a model's weights from a checkpoint to a safetensors file, and the loading of such a file into
// a training.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>

#include "checkpoint/checkpoint.h"
#include "checkpoint/sliced_state.h"
#include "plimsoll/export.h"

namespace plimsoll {

/// Writes the model's weights of a checkpoint, all or none; quantized weights are dequantized. Merged weights are
/// summed in float32 and rounded once. The extra bits of 16-bit weights (`optimizer.weight_update`) are used if the
/// requested type differs from the type that the weights are held in. Holds one weight at a time in memory. Throws
/// UserError (failure) if the file is damaged or no checkpoint of ours. Throws UserError (usage) if adapters are to be
/// merged and the checkpoint has none.
ExportReport export_weights(const std::filesystem::path& checkpoint, const std::filesystem::path& out,
                            const ExportOptions& options);

/// Copies the weights of `file` into `state`, Training::state(), cast and quantized to the format of the state. The
/// extra bits of 16-bit weights are taken from the file too. Adapters that the file does not have stay unchanged; half
/// of an adapter is refused. Tensors that are not floating have the same type in both. Throws UserError if the file is
/// damaged or its tensors are not the model's, naming them; nothing is written then. Also throws UserError if the file
/// loses bytes while it is read, which may be after some weights were written.
/// `key` is the job's key that names the file. `sliced`: the tensors of `state` of which this rank has slices.
void load_weights(const std::filesystem::path& file, const NamedTensors& state,
                  const std::string& key = "model.weights", const SlicedState& sliced = {});

}  // namespace plimsoll
