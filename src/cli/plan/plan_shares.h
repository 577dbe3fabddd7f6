// Reports the shares of the budget and of the card that a plan takes, and the rest.
#pragma once

#include <string>

#include "cli/json_output.h"
#include "cli/screen/terminal.h"
#include "plimsoll/train_job.h"

namespace plimsoll::cli {

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
