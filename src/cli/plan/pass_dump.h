// --dump-passes: the passes that made the plan, as a list, and the trace after each as a file.
#pragma once

#include <filesystem>
#include <string>

#include "cli/json_output.h"
#include "plimsoll/train_job.h"
#include "report/terminal.h"

namespace plimsoll::cli {

struct PassDump {
  std::string table;  ///< a row for each pass
  Json json;          ///< [{"pass", "applied", "changed", "ops", "buffers", "live_bytes", "file"}, …]
};

/// Whether a file of this name may be one that a dump writes: passes.txt or NN-PASS.txt.
bool is_pass_file(const std::string& name);

/// Runs the passes of the plan again. Writes NN-PASS.txt into `folder`, which is made if it is missing: the listing of
/// the trace after each pass that changed it, "00-recorded.txt" first; and at last passes.txt, the table. It first
/// removes the files that an earlier dump of these passes left. Throws UserError (failure) for what the system refuses.
PassDump dump_passes(const PlannedJob& planned, const std::filesystem::path& folder, const Screen& screen);

}  // namespace plimsoll::cli
