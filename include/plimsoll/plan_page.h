// Declares a plan as one self-contained HTML page: no network and no other file, for any browser.
//
// The page says if the plan fits and why. It draws the memory of the step over its ops, stacked by role, with the
// budget and the peak. It also draws the arena, each buffer a rectangle of time and offset, and names the largest
// buffers at the peak. Texts and tables are plain HTML and readable without JavaScript. The page's own script draws the
// charts from compact arrays (plan_page_data.h). Names from users' modules and files are escaped everywhere.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "plimsoll/plan.h"

namespace plimsoll {

/// A page's contents.
struct PlanPage {
  std::string title;                    ///< "llama-7b.yaml"
  std::string subtitle;                 ///< the job and the device planned for, one line
  const Plan* plan = nullptr;           ///< must be set
  int64_t minimum_budget_bytes = 0;     ///< PlannedStep::minimum_budget_bytes; 0: not known, not shown
  std::vector<double> op_seconds;       ///< predicted seconds by op of plan->trace; empty: not known
  std::vector<FrontierPoint> frontier;  ///< in any order; empty: no such chart
  std::vector<std::pair<std::string, std::string>> facts;  ///< name and value, shown unchanged: "micro batch", "4"
};

/// Returns the page in UTF-8. Its size is at most a few MiB: of very many buffers the smallest are left out of the
/// arena map, and the page says how many and how large. Deterministic. Throws InternalError without a plan, or if
/// op_seconds does not have one entry for each op.
std::string to_html(const PlanPage& page);

}  // namespace plimsoll
