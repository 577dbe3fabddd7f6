// Formats a trace for reading: segments, operators, buffers, totals by operator.
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
  std::optional<std::string> segment;                   ///< list only its operators, and the buffers that are live in
                                                        ///< it
  int64_t limit = std::numeric_limits<int64_t>::max();  ///< largest number of operators, and of buffers
  bool summary = false;                                 ///< do not list single operators and buffers
  Screen screen;                                        ///< lines of operators are folded only on terminals
};

/// Returns the listing. `offsets`: planned offset of each buffer; empty: none are shown. Throws UserError for a segment
/// that the trace does not have.
std::string listing_of(const Trace& trace, const std::vector<int64_t>& offsets, const ListingOptions& options);

}  // namespace plimsoll::cli
