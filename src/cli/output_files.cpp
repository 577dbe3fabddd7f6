#include "cli/output_files.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <system_error>

#include "plimsoll/error.h"
#include "train/checkpoint.h"

namespace plimsoll::cli {
namespace {

struct InputFile {
  std::string what;
  std::filesystem::path file;
};

std::vector<InputFile> inputs_of(const std::filesystem::path& job_file, const Job& job) {
  std::vector<InputFile> inputs = {{"the job file", job_file}};
  for (const std::filesystem::path& file : job.data.files) inputs.push_back({"one of data.files", file});
  if (job.checkpoint.resume != "auto" && job.checkpoint.resume != "never")
    inputs.push_back({"checkpoint.resume", job.checkpoint.resume});
  if (!job.checkpoint.directory.empty())
    for (const auto& [step, file] : checkpoints_in(job.checkpoint.directory))
      inputs.push_back({fmt::format("the checkpoint of step {}", step), file});
  inputs.push_back({"model.weights", job.model.weights});
  inputs.push_back({"model.config", job.model.config});
  return inputs;
}

bool are_one_file(const std::filesystem::path& a, const std::filesystem::path& b) {
  std::error_code error;
  if (std::filesystem::equivalent(a, b, error)) return true;
  return std::filesystem::weakly_canonical(a, error) == std::filesystem::weakly_canonical(b, error);
}

}  // namespace

void require_outputs_apart(const std::vector<OutputFile>& outputs, const std::filesystem::path& job_file,
                           const Job& job) {
  std::vector<OutputFile> given;
  std::ranges::copy_if(outputs, std::back_inserter(given), [](const OutputFile& output) {
    std::error_code error;  // what is no file on a disk is not overwritten: a pipe, /dev/null
    return !output.file.empty() && output.file != "-" &&
           (!std::filesystem::exists(output.file, error) || std::filesystem::is_regular_file(output.file, error));
  });
  const std::vector<InputFile> inputs = inputs_of(job_file, job);
  for (size_t i = 0; i < given.size(); ++i) {
    const auto& [option, file] = given[i];
    for (const InputFile& input : inputs)
      if (!input.file.empty() && are_one_file(file, input.file))
        throw UserError(fmt::format("{} is {}, which is {}: it would be overwritten; name another file", option,
                                    file.string(), input.what));
    for (size_t other = 0; other < i; ++other)
      if (are_one_file(file, given[other].file))
        throw UserError(
            fmt::format("{} and {} are both {}; name two files", given[other].option, option, file.string()));
  }
}

}  // namespace plimsoll::cli
