// Declares the families of vision transformers whose weights are read in the format of Hugging Face's transformers.
// They are ViT, and the encoders of CLIP and SigLIP, alone or next to their text encoders.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "plimsoll/models.h"
#include "weights/tensor_names.h"

namespace plimsoll::weights {

/// Returns "clip", "clip_vision_model", "siglip", "siglip_vision_model", "vit": `model_type` of the config.json.
const std::vector<std::string>& vision_family_names();

struct VisionArchitecture {
  std::string family;  ///< "vit", "clip", "siglip"
  VisionConfig config;
  int64_t image_size = 0;
  std::vector<std::string> notes = {};  ///< notes on keys that are not used, one a line
};

/// Returns the architecture in the config.json of `path` (the file, or its folder), with the mean and deviation of a
/// preprocessor_config.json next to it. Without that file, they are the defaults of the family's image processor.
///
/// The encoder's result is the last hidden state as in transformers: after the last norm for ViT and SigLIP, before it
/// for CLIP. In CLIP that norm belongs to the pooling of the class token. Throws UserError that names the file, and the
/// key at fault if there is one. Causes: another family (the message lists the known ones), or a setting that the
/// encoder does not have. A size may also be missing, not a whole number or out of bounds.
VisionArchitecture read_vision_architecture(const std::filesystem::path& path);

/// Returns the tensors of such an encoder: the first config.depth of its `depth_in_file` blocks. Later blocks, parts
/// that only pool or classify, and the text encoder are ignored.
Layout vision_layout_of(const VisionArchitecture& architecture, int64_t depth_in_file);

/// Calls visit(name, place) for every setting in which a job must agree with the file; place(config) is a reference to
/// it.
template <typename Visit>
void for_each_vision_field(Visit&& visit) {
#define PLIMSOLL_FIELD(name) \
  visit(                     \
      #name, [](auto& config) -> auto& { return config.name; })
  PLIMSOLL_FIELD(patch);
  PLIMSOLL_FIELD(width);
  PLIMSOLL_FIELD(num_heads);
  PLIMSOLL_FIELD(intermediate_size);
  PLIMSOLL_FIELD(norm);
  PLIMSOLL_FIELD(norm_eps);
  PLIMSOLL_FIELD(activation);
  PLIMSOLL_FIELD(bias);
  PLIMSOLL_FIELD(patch_bias);
  PLIMSOLL_FIELD(class_token);
  PLIMSOLL_FIELD(pre_norm);
#undef PLIMSOLL_FIELD
}

}  // namespace plimsoll::weights
