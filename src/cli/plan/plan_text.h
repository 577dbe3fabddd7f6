// Formats the result of `plimsoll plan` as text: tables for a terminal, and a page for a browser.
#pragma once

#include <string>
#include <vector>

#include "cli/screen/terminal.h"
#include "plimsoll/train_job.h"

namespace plimsoll::cli {

/// Returns the verdict, the memory at the peak, the step, and the decisions with their reasons.
/// `run_length`: of describe_run_length().
std::string plan_text(const Job& job, const PlannedJob& planned, const std::string& run_length, const Screen& screen);

std::string frontier_table(const std::vector<FrontierPoint>& frontier, const Screen& screen);

/// Returns the page of `--html`.
std::string plan_page(const Job& job, const PlannedJob& planned, const std::vector<FrontierPoint>& frontier);

}  // namespace plimsoll::cli
