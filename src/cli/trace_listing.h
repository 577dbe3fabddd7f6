// Formats a trace: for reading (segments, operators, buffers, totals by operator), as JSON, and its ops by their
// time.
#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "cli/output.h"
#include "cli/screen/terminal.h"
#include "plimsoll/plan_job.h"
#include "plimsoll/trace.h"

namespace plimsoll::cli {

/// The parts of a trace that listing_of() shows.
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

/// Returns {"buffers", "ops", "segments", "inputs", "outputs", "state"}. `offsets`: planned offset of each buffer in
/// bytes (null: never used); an empty vector is left out. Lifetimes are half-open, in op indices.
Json trace_json(const Trace& trace, const std::vector<int64_t>& offsets);

/// Returns {"device", "times", "step_seconds", "timed_seconds", "floor_seconds", "wait_seconds", "ops": all groups}.
/// Seconds are those of a step, or of the requested segment.
Json hot_json(const HotOps& hot, const CostModel& cost);

/// Returns the first `count` groups (0: as many as the screen has lines for, at most 20), and the source of their
/// times. `whole` names the unit that they are part of: "a step". Formatted for `screen`.
std::string hot_text(const HotOps& hot, const CostModel& cost, const std::string& whole, int64_t count,
                     const Screen& screen);

}  // namespace plimsoll::cli
