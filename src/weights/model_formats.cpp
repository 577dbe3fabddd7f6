#include "weights/model_formats.h"

#include <algorithm>
#include <iterator>

#include "base/json.h"
#include "weights/config_reader.h"
#include "weights/families.h"
#include "weights/mamba_family.h"
#include "weights/model_weights.h"

namespace plimsoll::weights {
namespace {

using Json = nlohmann::json;

/// Returns the config.json that the job read, for weights of another type.
Json with_dtype(Json json, DType dtype) {
  const bool has_new_name = json.contains("dtype");
  if (has_new_name) json["dtype"] = name_of(dtype);
  if (!has_new_name || json.contains("torch_dtype")) json["torch_dtype"] = name_of(dtype);
  return json;
}

/// Sets whether the head is the embedding, which the weights decide if they have another head (tensor_names.h).
void set_tied(Json& json, bool tied, bool read_as) {
  if (tied != read_as) json["tie_word_embeddings"] = tied;
}

HuggingFaceModel decoder_in_huggingface(const HuggingFaceRequest& request) {
  DecoderConfig config = request.model.decoder;
  config.vocab_size = request.vocab_size;
  if (const auto positions = request.rows("positions")) config.max_positions = *positions;
  if (const auto& file = request.config_file) {
    Json json = read_python_json_file(*file, kMaxConfigBytes);
    Architecture read = architecture_of(json, file->string());
    set_tied(json, config.tie_embeddings, read.config.tie_embeddings);
    read.config.tie_embeddings = config.tie_embeddings;
    if (differences(read.config, canonical(config)).empty())
      return {parameters_of(read.family, read.config), with_dtype(std::move(json), request.dtype)};
  }
  const Architecture chosen = family_of(config);
  return {parameters_of(chosen.family, chosen.config),
          config_json_of(chosen, std::string(name_of(request.dtype)), request.sequence_length)};
}

HuggingFaceModel mamba_in_huggingface(const HuggingFaceRequest& request) {
  MambaConfig config = request.model.mamba;
  config.vocab_size = request.vocab_size;
  std::vector<Parameter> parameters = mamba_layout_of(config).parameters;
  if (const auto& file = request.config_file) {
    Json json = read_python_json_file(*file, kMaxConfigBytes);
    MambaConfig read = mamba_config_of(json, file->string());
    set_tied(json, config.tie_embeddings, read.tie_embeddings);
    read.tie_embeddings = config.tie_embeddings;
    if (differences(read, config).empty()) return {std::move(parameters), with_dtype(std::move(json), request.dtype)};
  }
  return {std::move(parameters), mamba_config_json_of(config, std::string(name_of(request.dtype)))};
}

constexpr ModelFormat kFormats[] = {
    {.type = "decoder",
     .load = [](const ModelConfig& model, const NamedTensors& state,
                const SlicedState& sliced) { load_decoder_weights(model.weights, model.config, state, "", sliced); },
     .to_huggingface = decoder_in_huggingface},
    {.type = "mamba",
     .load = [](const ModelConfig& model, const NamedTensors& state,
                const SlicedState& sliced) { load_mamba_weights(model.weights, model.config, state, sliced); },
     .to_huggingface = mamba_in_huggingface},
    {.type = "prompt_segmentation",
     .load_vision =
         [](const ModelConfig& model, const NamedTensors& state, const SlicedState& sliced) {
           load_tiny_vit_weights(model.vision_weights, state, "encoder.", sliced);
         }},
    {.type = "video_llm",
     .load_vision =
         [](const ModelConfig& model, const NamedTensors& state, const SlicedState& sliced) {
           load_vision_weights(model.vision_weights, model.vision_config, model.video_llm.vision, state, "vision.",
                               sliced);
         },
     .part_keys = "model.llm.weights, model.vision.weights"},
};

}  // namespace

ModelFormat model_format(const std::string& type) {
  const auto found = std::ranges::find(kFormats, type, &ModelFormat::type);
  return found != std::end(kFormats) ? *found : ModelFormat{};
}

std::string huggingface_types() {
  std::string types;
  for (const ModelFormat& each : kFormats)
    if (each.to_huggingface) types += (types.empty() ? "" : ", ") + std::string(each.type);
  return types;
}

}  // namespace plimsoll::weights
