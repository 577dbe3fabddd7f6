// Declares the tokenizer of a job that starts from weights and names no tokenizer: the weights' own.
#pragma once

#include <filesystem>

#include "job/values/key_locations.h"
#include "plimsoll/job.h"

namespace plimsoll::job {

/// Sets data.tokenizer and data.tokenizer_file to the tokenizer in the folder of the weights (model.weights,
/// model.llm.weights), or to that of their GGUF file, with a note, if the job reads tokens and gives neither key. Paths
/// are relative to `directory`. A note also says which files of a tokenizer in the folder are not read.
void use_tokenizer_of_weights(Job& job, const KeyLocations& locations, const std::filesystem::path& directory);

}  // namespace plimsoll::job
