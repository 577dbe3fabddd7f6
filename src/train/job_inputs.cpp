#include <fmt/format.h>

#include "job/keys/data_kind.h"
#include "plimsoll/error.h"
#include "plimsoll/job.h"

namespace plimsoll {

std::vector<JobInput> inputs_of(const Job& job) {
  std::vector<JobInput> inputs;
  if (const job::DataKind& kind = job::data_kind(job.data.type); kind.from_files) {
    for (const std::filesystem::path& file : job.data.files) inputs.push_back({"one of data.files", file});
    Job copy = job;
    if (kind.paths)
      for (const job::DataPath& each : kind.paths(copy)) inputs.push_back({"one of the data's files", *each.path});
  }
  inputs.push_back({"data.tokenizer_file", job.data.tokenizer_file});
  if (job.checkpoint.resume != "auto" && job.checkpoint.resume != "never")
    inputs.push_back({"checkpoint.resume", job.checkpoint.resume});
  try {
    if (!job.checkpoint.directory.empty())
      for (const auto& [step, file] : checkpoints_in(job.checkpoint.directory))
        inputs.push_back({fmt::format("the checkpoint of step {}", step), file});
  } catch (const UserError&) {  // training reports a folder that cannot be listed
  }
  const ModelConfig& model = job.model;
  inputs.insert(inputs.end(), {{"model.weights", model.weights},
                               {"model.config", model.config},
                               {"model.llm.weights", model.llm_weights},
                               {"model.llm.config", model.llm_config},
                               {"model.vision.weights", model.vision_weights},
                               {"model.vision.config", model.vision_config}});
  std::erase_if(inputs, [](const JobInput& input) { return input.file.empty(); });
  return inputs;
}

}  // namespace plimsoll
