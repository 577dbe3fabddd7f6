// Formats the verdict on a plan: whether it fits its budget, and what fills the memory if it does not.
#pragma once

#include <string>

#include "cli/screen/terminal.h"
#include "plimsoll/plan_training.h"

namespace plimsoll::cli {

/// Number of the largest buffers at the peak that text and JSON name.
constexpr size_t kResidentsShown = 8;

/// Returns "fits: 7.42 GiB of 8.00 GiB" or "does not fit: …" with the minimum budget; one line.
std::string verdict_of(const PlannedStep& planned);

/// Returns the verdict that is known before the fastest plan is: "fits: 42.6 GiB of 47.4 GiB are enough; looking for
/// the fastest plan"; one line.
std::string early_verdict_of(int64_t enough_bytes, int64_t budget_bytes);

/// Returns, for a plan that does not fit, the verdict and the memory at the peak, by name and bytes.
std::string peak_report(const PlannedStep& planned, const Screen& screen);

}  // namespace plimsoll::cli
