// Formats the output of plimsoll trace --hot: the ops of a step by their time.
#pragma once

#include <string>

#include "cli/json_output.h"
#include "cli/screen/terminal.h"
#include "plimsoll/plan_job.h"

namespace plimsoll::cli {

/// Returns {"device", "times", "step_seconds", "timed_seconds", "floor_seconds", "wait_seconds", "ops": all groups}.
/// Seconds are those of a step, or of the requested segment.
Json hot_json(const HotOps& hot, const CostModel& cost);

/// Returns the first `count` groups (0: as many as the screen has lines for, at most 20), and the source of their
/// times. `whole` names the unit that they are part of: "a step". Formatted for `screen`.
std::string hot_text(const HotOps& hot, const CostModel& cost, const std::string& whole, int64_t count,
                     const Screen& screen);

}  // namespace plimsoll::cli
