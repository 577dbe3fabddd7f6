// JOB.yaml [key.path=value ...] [--json FILE|-]: what plan, train and trace take.
#pragma once

#include <string>
#include <vector>

#include "cli/job_flags.h"
#include "cli/json_output.h"
#include "cli/output_files.h"
#include "plimsoll/job.h"

namespace plimsoll::cli {

struct JobArguments {
  std::string file;
  std::vector<std::string> overrides;
  JobFlags flags;
  Output output;

  void add_to(CLI::App& command);

  /// The job as file, flags and overrides say, the later before the earlier; other programs' names in it are answered
  /// on standard error. Throws UserError as read_job does.
  Job read() const;
  /// The same without a word on standard error, where say_notes() puts what read() says; `more` overrides come last.
  Job read_silently(const std::vector<std::string>& more = {}) const;
  static void say_notes(const Job& job);

  /// Throws UserError (usage) where what is written, the JSON and `outputs`, is what `job` reads, or is written twice.
  void require_outputs_apart(const Job& job, std::vector<OutputFile> outputs = {}) const;

  /// Flags and overrides, as read_job takes them.
  std::vector<std::string> all_overrides() const;
};

/// The job keys with most effect on memory, for the end of `--help`.
std::string memory_keys_help();

}  // namespace plimsoll::cli
