// The weights that a job starts from, whatever files they are in.
#pragma once

#include <filesystem>
#include <string>

#include "checkpoint/checkpoint.h"
#include "checkpoint/sliced_state.h"
#include "plimsoll/models.h"

namespace plimsoll {

/// Whether the job names weights to start from, of the whole model or of a part.
bool starts_from_weights(const ModelConfig& model);

/// Copies the weights of `model.weights`, or of the parts (`model.llm.weights`, `model.vision.weights`), into `state`,
/// Training::state(). A folder or a GGUF file is another program's,
/// and so is a safetensors file beside a `model.config` unless its names are ours; all else is load_weights'
/// (weights_file.h). `sliced`: the tensors of `state` of which this rank has slices (Training::slices()); each takes
/// its part, and one whole tensor at a time exists for that. Ranks do not wait for each other.
void load_model_weights(const ModelConfig& model, const NamedTensors& state, const SlicedState& sliced = {});

/// Copies the weights of a decoder out of files as transformers or llama.cpp keep them (train/weights) into `state`, in
/// which its parameters' names begin with `prefix` ("llm."); other tensors of the state are left alone. `config`: the
/// file that says the architecture, or empty for what stands beside the weights. Each is cast, and quantised, as the
/// state holds it; it goes from the memory map to its place, a piece at a time, and its pages are given back. Throws
/// UserError where a file is damaged, or its tensors are not those of the architecture or not the state's: all of them
/// in one message, and nothing is written then.
void load_decoder_weights(const std::filesystem::path& weights, const std::filesystem::path& config,
                          const NamedTensors& state, const std::string& prefix = "", const SlicedState& sliced = {});

/// The same of a Mamba2 language model, whose state it is whole.
void load_mamba_weights(const std::filesystem::path& weights, const std::filesystem::path& config,
                        const NamedTensors& state, const SlicedState& sliced = {});

/// The same of a vision encoder at `prefix` ("vision."). `wanted`: how many of the file's blocks, and whether its last
/// norm, are wanted.
void load_vision_weights(const std::filesystem::path& weights, const std::filesystem::path& config,
                         const VisionConfig& wanted, const NamedTensors& state, const std::string& prefix = "",
                         const SlicedState& sliced = {});

/// The same of a TinyViT (models/tiny_vit.h) at `prefix` ("encoder."), from a safetensors file with the names that
/// TinySAM, MobileSAM and TinyViT publish theirs with; what else such a file holds is left alone.
void load_tiny_vit_weights(const std::filesystem::path& weights, const NamedTensors& state,
                           const std::string& prefix = "", const SlicedState& sliced = {});

}  // namespace plimsoll
