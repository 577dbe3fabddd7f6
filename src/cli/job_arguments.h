// Declares JOB.yaml [key.path=value ...] [--json FILE|-]: the arguments that plan, train and trace share.
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

  /// Returns the job from file, flags and overrides. Overrides have priority over flags, and flags over the file. Names
  /// of other programs in it are reported on standard error. Throws UserError as read_job does.
  Job read() const;
  /// Returns the job as read() does, without output on standard error; say_notes() prints the notes there. `more`
  /// overrides have priority over all others.
  Job read_silently(const std::vector<std::string>& more = {}) const;
  static void say_notes(const Job& job);

  /// Throws UserError (usage) if an output, the JSON or one of `outputs`, is a file that `job` reads, or is written
  /// twice.
  void require_outputs_apart(const Job& job, std::vector<OutputFile> outputs = {}) const;

  /// Returns flags and overrides, in the form that read_job takes.
  std::vector<std::string> all_overrides() const;
};

/// Returns the help of the job keys with most effect on memory, for the end of `--help`.
std::string memory_keys_help();

}  // namespace plimsoll::cli
