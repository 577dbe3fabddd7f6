#include "job/architecture.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <vector>

#include "base/nearest_file.h"
#include "job/keys/model_kind.h"
#include "plimsoll/error.h"
#include "weights/decoder_fields.h"
#include "weights/gguf_source.h"
#include "weights/mamba_family.h"
#include "weights/vision_families.h"

namespace plimsoll::job {
namespace {

/// Throws UserError for all given keys of `said` that differ from `found`; 0 for a size only means its default.
/// `for_each` visits the settings.
template <typename Config, typename ForEach>
void must_agree(const std::filesystem::path& file, const std::string& section, const KeyLocations& locations,
                const ForEach& for_each, Config said, Config found) {
  std::vector<std::string> others;
  std::string first;
  for_each([&](const char* name, auto place) {
    const std::string key = section + "." + name;
    using Value = std::remove_cvref_t<decltype(place(said))>;
    if (!locations.given(key) || place(said) == place(found)) return;
    if constexpr (!std::is_same_v<Value, bool>)
      if (place(said) == Value{}) return;
    if (first.empty()) first = key;
    others.push_back(fmt::format("{} is {} in the job, {} in the file", key, place(said), place(found)));
  });
  if (others.empty()) return;
  refuse(locations.of({first}),
         fmt::format("the architecture is that of {}; leave these keys out, or make them agree\n  {}", file.string(),
                     fmt::join(others, "\n  ")));
}

void take_mamba(const std::filesystem::path& file, const KeyLocations& locations, MambaConfig& config) {
  MambaConfig found = weights::read_mamba_config(file);
  must_agree(
      file, "model", locations, [](auto&& visit) { weights::for_each_mamba_field(visit); }, config, found);
  // The job may choose the chunks of the scan.
  if (locations.given("model.chunk_size")) found.chunk_size = config.chunk_size;
  config = found;
}

void take_vision(const std::filesystem::path& file, const KeyLocations& locations, VideoLlmConfig& config) {
  weights::VisionArchitecture found = weights::read_vision_architecture(file);
  const VisionConfig said = config.vision;
  must_agree(
      file, "model.vision", locations, [](auto&& visit) { weights::for_each_vision_field(visit); }, said, found.config);
  if (locations.given("model.image_size") && config.image_size != found.image_size)
    refuse(locations.of({"model.image_size"}),
           fmt::format("model.image_size is {}; the positions of {} are learned for {}: leave it out",
                       config.image_size, file.string(), found.image_size));
  // Fewer blocks than the weights have: features of an earlier layer, before the last norm.
  if (locations.given("model.vision.depth")) {
    if (said.depth > found.config.depth)
      refuse(locations.of({"model.vision.depth"}),
             fmt::format("model.vision.depth is {}; allowed: 1 to {}, the number of blocks in {}", said.depth,
                         found.config.depth, file.string()));
    if (said.depth < found.config.depth) found.config.final_norm = false;
    found.config.depth = said.depth;
  }
  if (locations.given("model.vision.final_norm")) found.config.final_norm = said.final_norm;
  if (locations.given("model.vision.image_mean")) found.config.image_mean = said.image_mean;
  if (locations.given("model.vision.image_std")) found.config.image_std = said.image_std;
  config.vision = found.config;
  config.image_size = found.image_size;
}

/// Returns advice for weights that do not exist: a model of a hub, "meta-llama/Llama-3.2-1B", or a name that is nearly
/// right.
std::string advice_for_missing(const std::filesystem::path& weights, const std::filesystem::path& path) {
  const std::string text = weights.string();
  std::error_code error;
  if (weights.is_relative() && std::ranges::count(text, '/') == 1 && !text.ends_with('/') && !text.starts_with('.') &&
      !std::filesystem::exists(path.parent_path(), error))
    return "; Plimsoll downloads nothing: fetch the model's folder (huggingface-cli download) and name that";
  return nearest_file_advice(path);
}

/// Returns the file with the architecture of the weights at `section`; empty if there is none. Paths are relative to
/// `directory`.
std::filesystem::path architecture_file(const std::filesystem::path& weights, const std::filesystem::path& config,
                                        const std::string& section, const KeyLocations& locations,
                                        const std::filesystem::path& directory) {
  std::error_code error;
  if (!config.empty()) {
    const std::filesystem::path path = directory / config;
    const bool folder = std::filesystem::is_directory(path, error);
    if (!std::filesystem::exists(folder ? path / "config.json" : path, error))
      refuse(locations.of({section + ".config"}),
             fmt::format("{}.config is {}, which {}", section, path.string(),
                         folder ? "has no config.json" : "does not exist" + advice_for_missing(config, path)));
    return path;
  }
  if (weights.empty()) return {};
  const std::filesystem::path path = directory / weights;
  // Checked before any plan: without a folder or a GGUF file, the plan would have the default architecture. A missing
  // file of tensors alone is reported when it is read, because resuming and exporting do not need it.
  if (path.extension() != ".safetensors" && !std::filesystem::exists(path, error))
    refuse(locations.of({section + ".weights"}),
           fmt::format("{0}.weights is {1}, which does not exist{2}; {0}.config can name a config.json that says the "
                       "architecture without them",
                       section, path.string(), advice_for_missing(weights, path)));
  const bool folder = std::filesystem::is_directory(path, error);
  if (folder && !std::filesystem::exists(path / "config.json", error))
    refuse(locations.of({section + ".weights"}),
           fmt::format("{0}.weights is the folder {1}, which has no config.json to say the architecture; name one in "
                       "{0}.config",
                       section, path.string()));
  return folder || weights::is_gguf(path) ? path : std::filesystem::path();
}

}  // namespace

void apply_architecture(const std::filesystem::path& file, const std::string& section, const KeyLocations& locations,
                        DecoderConfig& config) {
  const weights::Architecture found =
      weights::is_gguf(file) ? weights::read_gguf_architecture(file) : weights::read_architecture(file);
  must_agree(
      file, section, locations, [](auto&& visit) { weights::for_each_field(visit); }, config, found.config);
  const double dropout = config.dropout;
  config = found.config;
  config.dropout = dropout;
}

void apply_architecture(Job& job, const KeyLocations& locations, const std::filesystem::path& directory) {
  ModelConfig& model = job.model;
  if (!model.weights.empty())
    for (const auto& [key, path] :
         {std::pair{"model.llm.weights", &model.llm_weights},
          {model.type == "prompt_segmentation" ? "model.encoder.weights" : "model.vision.weights",
           &model.vision_weights}})
      if (!path->empty())
        refuse(locations.of({key}),
               fmt::format("{} is given, and model.weights, which is the whole model's; leave one of them out", key));
  if (model.type == "decoder" || model.type == "mamba") {
    const auto file = architecture_file(model.weights, model.config, "model", locations, directory);
    if (file.empty()) return;
    if (model.type == "mamba") return take_mamba(file, locations, model.mamba);
    return apply_architecture(file, "model", locations, model.decoder);
  }
  if (model.type != "video_llm" && model.type != "prompt_segmentation") return;
  DecoderConfig& llm = model.type == "video_llm" ? model.video_llm.llm : model.segmentation.llm;
  const auto llm_file = architecture_file(model.llm_weights, model.llm_config, "model.llm", locations, directory);
  if (!llm_file.empty()) apply_architecture(llm_file, "model.llm", locations, llm);
  if (model.type == "prompt_segmentation") return;  // its encoder's weights have no configuration file
  const auto vision_file =
      architecture_file(model.vision_weights, model.vision_config, "model.vision", locations, directory);
  if (!vision_file.empty()) {
    take_vision(vision_file, locations, model.video_llm);
  } else if (!model.vision_weights.empty()) {
    refuse(locations.of({"model.vision.weights"}),
           fmt::format("model.vision.weights is {}; it must be a folder with a config.json and safetensors, or "
                       "model.vision.config must name the config.json of the file",
                       (directory / model.vision_weights).string()));
  }
}

}  // namespace plimsoll::job
