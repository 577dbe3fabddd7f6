// A trace for reading: segments, operators, buffers, totals by operator.
#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "cli/screen/terminal.h"
#include "plimsoll/trace.h"

namespace plimsoll::cli {

struct ListingOptions {
  std::optional<std::string> segment;                   ///< only its operators, and the buffers that live in it
  int64_t limit = std::numeric_limits<int64_t>::max();  ///< at most so many operators, and as many buffers
  bool summary = false;                                 ///< no operators and buffers one by one
  Screen screen;                                        ///< lines of operators are folded on terminals only
};

/// `offsets`: by buffer, where the plan placed it; empty: none are shown. Throws UserError for a segment that the trace
/// does not have.
std::string listing_of(const Trace& trace, const std::vector<int64_t>& offsets, const ListingOptions& options);

}  // namespace plimsoll::cli
