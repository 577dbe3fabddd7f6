// Offers changes of a job whose start found less memory than its budget.
#pragma once

#include <string>

#include "cli/job_arguments.h"
#include "cli/screen/terminal.h"

namespace plimsoll::cli {

/// Prints what `plimsoll plan` prints of the job with memory_budget=`budget`: changes that would fit, each planned,
/// with the budget as a part of the change. Prints nothing if the job fits this budget. The search ends after ten
/// seconds, or at Ctrl-C.
void print_changes_within(const std::string& budget, const JobArguments& arguments, const Screen& screen);

}  // namespace plimsoll::cli
