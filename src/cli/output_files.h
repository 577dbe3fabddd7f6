// Checks the output files of a command before its work: no output is an input or a second output, and each can be
// written.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "plimsoll/job.h"

namespace plimsoll::cli {

/// An option that names a file, as given: "--html", "plan.html". An empty file: the option was not given.
struct OutputFile {
  std::string option;
  std::filesystem::path file;
};

/// Throws UserError (usage) if an output is the job file, a file of the data or of the tokenizer, a checkpoint in
/// checkpoint.directory, or a file of the weights that the job names or of their folder, or if two outputs are one
/// file.
void require_outputs_apart(const std::vector<OutputFile>& outputs, const std::filesystem::path& job_file,
                           const Job& job);

/// Throws UserError (usage) if `folder` has an input of the job, or one of `outputs`, under a name for which
/// `is_written` is true: the option writes it.
void require_folder_apart(const OutputFile& folder, bool (*is_written)(const std::string& name),
                          const std::vector<OutputFile>& outputs, const std::filesystem::path& job_file,
                          const Job& job);

/// Throws UserError that names the option if the file cannot be written: usage if the path is wrong, else failure. Call
/// it before work that takes long. Leaves no trace. Does nothing for an option that was not given and for -.
void require_writable(const OutputFile& output);

/// Throws UserError that names the option if the folder, or a folder above it, cannot be made: usage if the path is
/// wrong, else failure.
void require_folder_possible(const OutputFile& output);

}  // namespace plimsoll::cli
