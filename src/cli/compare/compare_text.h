// Formats the rows of `plimsoll compare`: the table, and a sentence that says what it means.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "cli/screen/terminal.h"
#include "plimsoll/compare.h"

namespace plimsoll::cli {

/// Returns the rows as a table. The header of the losses names the step after which they were taken, `steps`.
std::string compare_table(const std::vector<CompareRow>& rows, int64_t steps, const Screen& screen);

/// Returns a sentence that names the smallest and the fastest of the rows that were trained within `budget`, with their
/// figures. `budget`: bytes of the job's memory_budget; 0: no limit. Empty if there are no rows.
std::string compare_summary(const std::vector<CompareRow>& rows, int64_t budget);

}  // namespace plimsoll::cli
