// Lists the types of models and data.
#include <algorithm>

#include "job/keys/data_kind.h"
#include "job/keys/model_kind.h"
#include "plimsoll/error.h"

namespace plimsoll::job {
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
      decoder_kind(),  mamba_kind(), fmri_autoencoder_kind(), gesture_ssm_kind(), prompt_segmentation_kind(),
      video_llm_kind()};
  return kinds;
}
const ModelKind& model_kind(const std::string& type) {
  return kind_named(model_kinds(), type);
}

const std::vector<DataKind>& data_kinds() {
  static const std::vector<DataKind> kinds = {text_kind(),     synthetic_kind(), series_kind(), slices_kind(),
                                              pictures_kind(), clips_kind(),     stimuli_kind()};
  return kinds;
}
const DataKind& data_kind(const std::string& type) {
  return kind_named(data_kinds(), type);
}

void refuse(const std::string& place, const std::string& what) {
  throw UserError(place + ": " + what);
}

}  // namespace plimsoll::job
