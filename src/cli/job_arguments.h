// JOB.yaml [key.path=value ...] [--json FILE|-]: what plan, train and trace take.
#pragma once

#include <string>
#include <vector>

#include "cli/json_output.h"
#include "plimsoll/job.h"

namespace plimsoll::cli {

struct JobArguments {
  std::string file;
  std::vector<std::string> overrides;
  Output output;

  void add_to(CLI::App& command);

  /// The job as file and overrides say. Throws UserError as read_job does.
  Job read() const { return read_job(file, overrides); }
};

/// The job keys with most effect on memory, for the end of `--help`.
std::string memory_keys_help();

}  // namespace plimsoll::cli
