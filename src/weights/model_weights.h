// Declares the loading of the weights that a job starts from, for every kind of file.
#pragma once

#include <filesystem>
#include <string>

#include "checkpoint/checkpoint.h"
#include "checkpoint/checkpoint_state.h"
#include "plimsoll/models.h"

namespace plimsoll {

/// Returns true if the job names weights to start from, of the whole model or of a part.
bool starts_from_weights(const ModelConfig& model);

/// Copies the weights of `model.weights`, or of the parts (`model.llm.weights`, `model.vision.weights`), into `state`,
/// Training::state(). A folder or a GGUF file is another program's. So is a safetensors file next to a `model.config`
/// unless its names are ours. All other files go to load_weights (checkpoint_weights.h). `sliced`: the tensors of
/// `state` of which this rank has slices (Training::slices()). Each slice is filled from one whole tensor, which exists
/// only for that time. Ranks do not wait for each other.
void load_model_weights(const ModelConfig& model, const NamedTensors& state, const SlicedState& sliced = {});

/// Copies the weights of a decoder from files in the format of transformers or llama.cpp into `state`. The parameters'
/// names in `state` begin with `prefix` ("llm."); other tensors are unchanged. `config`: the file with the
/// architecture; empty: the one next to the weights. Each weight is cast, and quantized, to the format of the state. It
/// is copied from the memory map a piece at a time, and its pages are released. Throws UserError if a file is damaged,
/// or if its tensors are not those of the architecture or not the state's. The message lists all such tensors, and
/// nothing is written then.
void load_decoder_weights(const std::filesystem::path& weights, const std::filesystem::path& config,
                          const NamedTensors& state, const std::string& prefix = "", const SlicedState& sliced = {});

/// Copies the weights of a Mamba2 language model, which is the whole of `state`, in the same way.
void load_mamba_weights(const std::filesystem::path& weights, const std::filesystem::path& config,
                        const NamedTensors& state, const SlicedState& sliced = {});

/// Copies the weights of a vision encoder at `prefix` ("vision.") in the same way. `wanted` sets how many of the file's
/// blocks are loaded, and whether its last norm is.
void load_vision_weights(const std::filesystem::path& weights, const std::filesystem::path& config,
                         const VisionConfig& wanted, const NamedTensors& state, const std::string& prefix = "",
                         const SlicedState& sliced = {});

/// Copies the weights of a TinyViT (models/tiny_vit.h) at `prefix` ("encoder.") in the same way. The safetensors file
/// has the names in which TinySAM, MobileSAM and TinyViT are published; its other tensors are ignored.
void load_tiny_vit_weights(const std::filesystem::path& weights, const NamedTensors& state,
                           const std::string& prefix = "", const SlicedState& sliced = {});

}  // namespace plimsoll
