// Lists the types of models and data: the two tables that a new type has a line in.
#include <algorithm>

#include "job/keys/data_kind.h"
#include "job/keys/model_kind.h"
#include "plimsoll/error.h"

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

}  // namespace plimsoll::job
