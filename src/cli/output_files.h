// What a command writes must not be what it reads, nor be written twice; and can be written at all, which is found out
// before the work.
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

/// Throws UserError (usage) where `folder` has an input of the job, or one of `outputs`, under a name for which
/// `is_written` is true: the option writes it.
void require_folder_apart(const OutputFile& folder, bool (*is_written)(const std::string& name),
                          const std::vector<OutputFile>& outputs, const std::filesystem::path& job_file,
                          const Job& job);

/// Throws UserError (failure) where the file could not be written, with the option: to be called before work that takes
/// long. Leaves no trace. One that was not given, and -, are passed over.
void require_writable(const OutputFile& output);

/// The same of a folder that is to be made, with whatever it lies in.
void require_folder_possible(const OutputFile& output);

}  // namespace plimsoll::cli
