// Implements --dump-passes: a list of the passes that made the plan, and a file with the trace after each.
#pragma once

#include <filesystem>
#include <string>

#include "cli/output.h"
#include "cli/screen/terminal.h"
#include "plimsoll/train_job.h"

namespace plimsoll::cli {

/// A list of the passes, human-readable and as JSON.
struct PassDump {
  std::string table;  ///< a row for each pass
  Json json;          ///< [{"pass", "applied", "changed", "ops", "buffers", "live_bytes", "file"}, …]
};

/// Returns true if a dump may write a file of this name: passes.txt or NN-PASS.txt.
bool is_pass_file(const std::string& name);

/// Runs the passes of the plan again. Makes `folder` if it is missing and removes the files of an earlier dump. Writes
/// NN-PASS.txt, the listing of the trace after each pass that changed it, "00-recorded.txt" first; then passes.txt, the
/// table. Throws UserError if the system refuses a file.
PassDump dump_passes(const PlannedJob& planned, const std::filesystem::path& folder, const Screen& screen);

}  // namespace plimsoll::cli
