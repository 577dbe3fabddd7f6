// Reads the settings of a decoder from the files that its weights come in.
#pragma once

#include <filesystem>
#include <string>

#include "job/values/key_locations.h"
#include "plimsoll/job.h"
#include "plimsoll/models.h"

namespace plimsoll::job {

/// Sets all but the dropout of `config`, the decoder at `section` ("model"), from `file`: a config.json, its folder, or
/// a GGUF file. Throws UserError if keys of the job contradict the file, with all such keys; and as read_architecture()
/// does.
void apply_architecture(const std::filesystem::path& file, const std::string& section, const KeyLocations& locations,
                        DecoderConfig& config);

/// Sets the architectures of a job. For a decoder and mamba the file is model.config, or the configuration next to
/// model.weights. For models with a language model or a vision encoder as a part, it is that of model.llm.* and
/// model.vision.*. Paths are relative to `directory`.
void apply_architecture(Job& job, const KeyLocations& locations, const std::filesystem::path& directory);

}  // namespace plimsoll::job
