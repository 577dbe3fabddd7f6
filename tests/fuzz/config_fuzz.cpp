// A config.json of a decoder, a Mamba or a vision encoder, with a preprocessor_config.json next to it.
#include "fuzz.h"
#include "weights/families.h"
#include "weights/mamba_family.h"
#include "weights/tensor_names.h"
#include "weights/vision_families.h"

#include <nlohmann/json.hpp>

using namespace plimsoll;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view input = fuzz::text(data, size);
  const std::vector<std::string> part = fuzz::parts(input, 2);
  const std::filesystem::path file = fuzz::write("model/config.json", part[0]);
  fuzz::write("model/preprocessor_config.json", part[1]);
  fuzz::decoy("config.json", "{}");
  const fuzz::Rules rules{.names = false};
  fuzz::reads(
      input,
      [&] {
        const weights::Architecture read = weights::read_architecture(file);
        weights::layout_of(read.family, read.config);
        // An architecture that was read can be written, and read again.
        const weights::Architecture again =
            weights::architecture_of(weights::config_json_of(read, "float32", 128), "config.json");
        fuzz::require(again.family == read.family && again.config.num_layers == read.config.num_layers &&
                          again.config.intermediate_size == read.config.intermediate_size,
                      "a config.json that was written has another architecture");
      },
      rules);
  fuzz::reads(
      input,
      [&] {
        const MambaConfig read = weights::read_mamba_config(file.parent_path());
        weights::mamba_layout_of(read);
        const MambaConfig again =
            weights::mamba_config_of(weights::mamba_config_json_of(read, "float32"), "config.json");
        fuzz::require(weights::differences(read, again).empty(), "a config.json that was written has another Mamba");
      },
      rules);
  fuzz::reads(
      input,
      [&] {
        const weights::VisionArchitecture read = weights::read_vision_architecture(file.parent_path());
        weights::vision_layout_of(read, read.config.depth);
      },
      rules);
  return 0;
}
