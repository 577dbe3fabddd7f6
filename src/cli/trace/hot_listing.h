// plimsoll trace --hot: the ops of a step by their time.
#pragma once

#include <string>

#include "cli/json_output.h"
#include "cli/screen/terminal.h"
#include "plimsoll/plan_job.h"

namespace plimsoll::cli {

/// {"device", "times", "step_seconds", "timed_seconds", "floor_seconds", "wait_seconds", "ops": all groups}. Seconds of
/// a step, or of the segment that was asked for.
Json hot_json(const HotOps& hot, const CostModel& cost);

/// The first `count` groups (0: as many as the screen has lines for, 20 at most), and where their times are from.
/// `whole`: what they are of, "a step". Laid out for `screen`.
std::string hot_text(const HotOps& hot, const CostModel& cost, const std::string& whole, int64_t count,
                     const Screen& screen);

}  // namespace plimsoll::cli
