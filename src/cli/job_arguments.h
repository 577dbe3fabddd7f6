// Declares the arguments that plan, train and trace share. Refuses other arguments, and a job for a device that this
// machine does not have.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "cli/job_flags.h"
#include "cli/output.h"
#include "plimsoll/job.h"

namespace plimsoll::cli {

/// The arguments that plan, train and trace share: JOB.yaml [key.path=value ...] [--json FILE|-].
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

/// Throws UserError for the first item of `overrides` that is not KEY=VALUE, and for a job file that is KEY=VALUE. The
/// message has the probable intention and its syntax.
void reject_unexpected_arguments(const std::string& file, const std::vector<std::string>& overrides);

/// Throws UserError (failure) if this machine does not have the job's device; the message says what is missing, and how
/// to plan the job for the CPU. Takes milliseconds: nothing is planned.
void require_device_of(const Job& job);

}  // namespace plimsoll::cli
