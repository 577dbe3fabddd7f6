// A plan as one HTML page that needs nothing else: no network, no other file, any browser.
//
// The page says whether the plan fits and why, draws the memory of the step over its ops (stacked by role, with the
// budget and the peak) and the arena itself (every buffer a rectangle of time and offset), and names what lives at the
// peak. Texts and tables are plain HTML and stand without JavaScript; the charts are drawn by the page's own script
// from compact arrays (plan_page_data.h). Names come from users' modules and files: they are escaped wherever they
// appear.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "plimsoll/plan.h"

namespace plimsoll {

/// Contents of the page of a plan.
struct PlanPage {
  std::string title;                                       ///< "llama-7b.yaml"
  std::string subtitle;                                    ///< the job and the device planned for, one line
  const Plan* plan = nullptr;                              ///< must be set
  std::vector<double> op_seconds;                          ///< predicted, by op of plan->trace; empty: not known
  std::vector<FrontierPoint> frontier;                     ///< in any order; empty: no such chart
  std::vector<std::pair<std::string, std::string>> facts;  ///< name and value, shown as they are: "micro batch", "4"
};

/// The page, in UTF-8. Its size is bounded (a few MiB): of very many buffers the smallest are left out of the arena
/// map, and the page says how many and how large. Deterministic. InternalError without a plan, or with op_seconds that
/// are not one an op.
std::string to_html(const PlanPage& page);

}  // namespace plimsoll
