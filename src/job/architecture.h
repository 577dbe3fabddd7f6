// Reads the settings of a job's model from the files that its weights come in.
#pragma once

#include <filesystem>

#include "job/values/key_locations.h"
#include "plimsoll/job.h"

namespace plimsoll::job {

/// Sets the architecture of the job's model, and those of its parts with weights of their own. They come from
/// model.config, or from the configuration next to model.weights. Paths are relative to `directory`. Throws UserError
/// if the job names weights of a part and of the whole model, and as ModelKind::apply_architecture does.
void apply_architecture(Job& job, const KeyLocations& locations, const std::filesystem::path& directory);

}  // namespace plimsoll::job
