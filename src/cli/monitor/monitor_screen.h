// What `plimsoll monitor` shows: the machine and the runs on it, laid out for a screen.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "cli/monitor/run_status.h"
#include "cli/monitor/utilisation.h"
#include "cli/screen/terminal.h"

namespace plimsoll::cli {

struct RunView {
  RunStatus status;
  std::optional<int64_t> resident;
  std::optional<double> cores;  ///< that it keeps busy
};

struct MonitorView {
  std::vector<RunView> runs;
  std::vector<GpuUse> gpus;
  std::optional<MemoryOfMachine> memory;
  std::optional<double> busy;  ///< of all processors, [0, 1]
};

/// Part of a rank's training time that it spent in exchanges, waits for other ranks included: [0, 1].
double exchange_share(const RankStatus& rank);

/// Everything where the screen has lines for it; else without a line for each rank; else runs in brief, and of these as
/// many as it has lines for. The last line of the screen stays free for the cursor.
std::string monitor_text(const MonitorView& view, const Screen& screen);

}  // namespace plimsoll::cli
