// Formats the result of `plimsoll plan`: tables for a terminal, a page for a browser, JSON, and the shares of the
// budget that the plan takes.
#pragma once

#include <string>
#include <vector>

#include "cli/output.h"
#include "cli/screen/terminal.h"
#include "plimsoll/train_job.h"

namespace plimsoll::cli {

/// Returns the verdict, the memory at the peak, the step, and the decisions with their reasons.
/// `run_length`: of describe_run_length().
std::string plan_text(const Job& job, const PlannedJob& planned, const std::string& run_length, const Screen& screen);

std::string frontier_table(const std::vector<FrontierPoint>& frontier, const Screen& screen);

/// Returns the page of `--html`.
std::string plan_page(const Job& job, const PlannedJob& planned, const std::vector<FrontierPoint>& frontier);

/// Returns the plan of a job; docs/command-line.md lists the fields.
Json plan_json(const Job& job, const PlannedJob& planned);

/// Returns [{"budget_bytes", "peak_bytes", "step_seconds", "choices", "fits"}, …].
Json frontier_json(const std::vector<FrontierPoint>& frontier);

/// Returns "93.8 % of the budget, 89.1 % of the 8.00 GiB of NVIDIA GeForce RTX 3070; headroom 484 MiB"; empty if
/// neither is known.
std::string shares_text(const PlannedJob& planned, const Screen& screen);

/// Adds "headroom_bytes" (negative if the plan does not fit) and "budget_share", null without a budget. For a device of
/// the catalogue it adds "device_bytes" and "device_share", else null. Shares are parts of 1.
void add_shares(Json& json, const PlannedJob& planned);

/// Returns a table of the memory at the peak by parts of the model.
std::string modules_table(const Plan& plan, const Screen& screen);
/// Returns [{"module": null if it belongs to none, "bytes", "breakdown": {…}}, …].
Json modules_json(const Plan& plan);

}  // namespace plimsoll::cli
