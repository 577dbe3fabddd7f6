#include "job/architecture.h"

#include <fmt/format.h>

#include <utility>

#include "job/keys/model_kind.h"

namespace plimsoll::job {

void apply_architecture(Job& job, const KeyLocations& locations, const std::filesystem::path& directory) {
  const ModelConfig& model = job.model;
  const ModelKind& kind = model_kind(model.type);
  if (!model.weights.empty())
    for (const auto& [key, path] :
         {std::pair{"model.llm.weights", &model.llm_weights}, {kind.vision_weights_key, &model.vision_weights}})
      if (!path->empty())
        refuse(locations.of({key}),
               fmt::format("{} is given, and model.weights, which is the whole model's; leave one of them out", key));
  if (kind.apply_architecture) kind.apply_architecture(job, locations, directory);
}

}  // namespace plimsoll::job
