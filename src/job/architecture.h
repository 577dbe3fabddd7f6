// Settings of a decoder out of the files that its weights come in.
#pragma once

#include <filesystem>
#include <string>

#include "job/values/places.h"
#include "plimsoll/job.h"
#include "plimsoll/models.h"

namespace plimsoll::job {

/// Sets all but the dropout of `config`, the decoder at `section` ("model"), from `file`: a config.json, the folder of
/// one, or a GGUF file. Throws UserError where a key that the job gives says otherwise, with all such keys; and as
/// read_architecture does.
void take_architecture(const std::filesystem::path& file, const std::string& section, const Places& places,
                       DecoderConfig& config);

/// The same for a job: for a decoder and mamba from model.config, or what model.weights has beside it; for models with
/// a language model or a vision encoder as a part from model.llm.* and model.vision.* likewise. Paths are relative to
/// `directory`.
void take_architecture(Job& job, const Places& places, const std::filesystem::path& directory);

}  // namespace plimsoll::job
