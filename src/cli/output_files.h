// What a command writes must not be what it reads, nor be written twice.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "plimsoll/job.h"

namespace plimsoll::cli {

/// An option that names a file, as given: "--html", "plan.html". An empty one was not given.
struct OutputFile {
  std::string option;
  std::filesystem::path file;
};

/// Throws UserError (usage) where an output is the job file, one of the data's files, the tokenizer's, one of the
/// checkpoints in checkpoint.directory or of the weights that the job names or lies in their folder, or where two
/// outputs are one file.
void require_outputs_apart(const std::vector<OutputFile>& outputs, const std::filesystem::path& job_file,
                           const Job& job);

}  // namespace plimsoll::cli
