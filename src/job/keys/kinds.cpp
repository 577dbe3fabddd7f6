// Lists the types of models and data: the two tables that a new type has a line in.
#include "job/keys/kinds.h"

#include <algorithm>
#include <system_error>

#include "base/names.h"
#include "plimsoll/error.h"
#include "weights/gguf_source.h"

namespace plimsoll::job {

// Each is in the file of its name.
ModelKind decoder_kind();
ModelKind mamba_kind();
ModelKind fmri_autoencoder_kind();
ModelKind gesture_ssm_kind();
ModelKind prompt_segmentation_kind();
ModelKind video_llm_kind();

DataKind text_kind();
DataKind synthetic_kind();  // text_kind.cpp
DataKind series_kind();
DataKind slices_kind();
DataKind pictures_kind();
DataKind clips_kind();
DataKind stimuli_kind();

namespace {

template <typename Kind>
const Kind& kind_named(const std::vector<Kind>& kinds, const std::string& type) {
  const auto kind = std::ranges::find(kinds, type, &Kind::type);
  check(kind != kinds.end(), "unknown type " + type);
  return *kind;
}

}  // namespace

const std::vector<ModelKind>& model_kinds() {
  static const std::vector<ModelKind> kinds = {
      decoder_kind(),              //
      mamba_kind(),                //
      fmri_autoencoder_kind(),     //
      gesture_ssm_kind(),          //
      prompt_segmentation_kind(),  //
      video_llm_kind(),
  };
  return kinds;
}
const ModelKind& model_kind(const std::string& type) {
  return kind_named(model_kinds(), type);
}

bool learns_from(const ModelKind& kind, const std::string& data_type) {
  return std::ranges::find(kind.data_types, data_type) != kind.data_types.end() || !data_kind(data_type).from_files;
}

const std::vector<DataKind>& data_kinds() {
  static const std::vector<DataKind> kinds = {
      text_kind(),       //
      synthetic_kind(),  //
      series_kind(),     //
      slices_kind(),     //
      pictures_kind(),   //
      clips_kind(),      //
      stimuli_kind(),
  };
  return kinds;
}
const DataKind& data_kind(const std::string& type) {
  return kind_named(data_kinds(), type);
}

std::string names_of_files(const std::vector<std::filesystem::path>& files) {
  std::vector<std::string> names;
  for (const std::filesystem::path& file : files) names.push_back(file.filename().string());
  return joined(names, ", ");
}

void refuse(const std::string& place, const std::string& what) {
  throw UserError(place + ": " + what);
}

namespace {

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

}  // namespace

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

}  // namespace plimsoll::job
