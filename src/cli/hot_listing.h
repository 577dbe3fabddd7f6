// plimsoll trace --hot: the ops of a step by their time.
#pragma once

#include <string>

#include "cli/json_output.h"
#include "train/hot_ops.h"

namespace plimsoll::cli {

/// {"device", "times", "step_seconds", "timed_seconds", "floor_seconds", "wait_seconds", "ops": all groups}. Seconds of
/// a step, or of the segment that was asked for.
Json hot_json(const HotOps& hot, const CostModel& cost);

/// The first `count` groups, and where their times are from. `whole`: what they are of, "a step". `terminal`: titles in
/// bold.
std::string hot_text(const HotOps& hot, const CostModel& cost, const std::string& whole, int64_t count, bool terminal);

}  // namespace plimsoll::cli
