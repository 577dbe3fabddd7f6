// Infers what a job file leaves out: the types of model and data, the settings of the model and the tokenizer that
// come with the weights, the rows of the embedding.
#pragma once

#include <cstdint>
#include <filesystem>
#include <vector>

#include "data/text/tokenizer.h"
#include "job/keys/keys.h"
#include "job/keys/values.h"
#include "plimsoll/job.h"

namespace plimsoll::job {

/// Sets the types that `values` name in the job, and those that follow from the other keys: a file with data.max_frames
/// and no model.type is a video_llm's, which learns from clips. job.notes has the conclusions. If nothing determines a
/// type, the default stays. Throws UserError for a type that does not exist. Throws UserError ("name one") if the keys
/// belong to several types of model and not to the default one.
void infer_types(const std::vector<Value>& values, Job& job);

/// Sets the architecture of the job's model, and those of its parts with weights of their own. They come from
/// model.config, or from the configuration next to model.weights. Paths are relative to `directory`. Throws UserError
/// if the job names weights of a part and of the whole model, and as ModelKind::apply_architecture does.
void apply_architecture(Job& job, const KeyLocations& locations, const std::filesystem::path& directory);

/// Sets data.tokenizer and data.tokenizer_file to the tokenizer in the folder of the weights (model.weights,
/// model.llm.weights), or to that of their GGUF file, with a note, if the job reads tokens and gives neither key. Paths
/// are relative to `directory`. A note also says which files of a tokenizer in the folder are not read.
void use_tokenizer_of_weights(Job& job, const KeyLocations& locations, const std::filesystem::path& directory);

}  // namespace plimsoll::job

namespace plimsoll {

/// Returns model.vocab_size (model.llm.vocab_size of models that contain a language model). If that is `auto`, returns
/// the tokenizer's vocabulary rounded up to a multiple of 64, a size that suits matrix kernels. Throws UserError if the
/// tokenizer has more tokens than the model has rows.
int64_t vocabulary_of(const Job& job, const Tokenizer& tokenizer);

/// Returns the number of rows from the job alone. The tokenizer's file is read only if the vocabulary is `auto`: a job
/// with an explicit size can be planned on a machine that does not have the file.
int64_t vocabulary_of(const Job& job);

}  // namespace plimsoll
