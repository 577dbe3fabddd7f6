// Formats the output of `plimsoll monitor`: the machine and the runs on it, for a screen.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "cli/run_status.h"
#include "cli/screen/terminal.h"
#include "cli/utilization.h"

namespace plimsoll::cli {

struct RunView {
  RunStatus status;
  std::optional<int64_t> resident;
  std::optional<double> cores;  ///< number of cores that it keeps busy
};

struct MonitorView {
  std::vector<RunView> runs;
  std::vector<GpuUse> gpus;
  std::optional<MemoryOfMachine> memory;
  std::optional<double> busy;  ///< busy share of all processors, [0, 1]
};

/// Returns the part of a rank's training time that it spent in exchanges, waits for other ranks included: [0, 1].
double exchange_share(const RankStatus& rank);

/// Returns the text that fits the screen's lines: everything; else no line for each rank; else runs in brief, and only
/// as many as there are lines. The last line of the screen stays free for the cursor.
std::string monitor_text(const MonitorView& view, const Screen& screen);

}  // namespace plimsoll::cli
