// Declares the data of a plan's page, as compact arrays for its script.
//
// A plan of an 80-layer model has about 30 000 ops and 40 000 buffers. Names are kept once, in `strings`. Indices and
// byte counts are written as differences to their predecessor ("deltas"); they use units of the arena's alignment if
// they are multiples of it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "plimsoll/plan_page.h"

namespace plimsoll {

/// A rectangle of the arena map: a buffer, or the scratch of one op.
struct PageBuffer {
  std::string label;
  Role role = Role::temporary;
  int64_t bytes = 0;
  int64_t offset = 0;  ///< bytes from the arena's start
  int32_t birth = 0;   ///< lives in ops [birth, death)
  int32_t death = 0;
  bool persistent = false;
  bool output = false;
};

struct PageBuffers {
  std::vector<PageBuffer> drawn;  ///< largest first; they include the residents of the peak that the page names
  std::vector<size_t> residents;  ///< buffers that are live at the peak, largest first: indices into `drawn`
  size_t left_out = 0;            ///< number of buffers that are not drawn, because there are too many
  int64_t left_out_largest = 0;   ///< bytes of the largest of them
  size_t residents_left = 0;      ///< number of buffers that are live at the peak and not in `residents`
  int64_t residents_left_bytes = 0;
};

/// Returns the buffers of the map: at most `max_drawn`, and the `residents` largest of the peak.
PageBuffers page_buffers(const Plan& plan, size_t residents, size_t max_drawn = 40000);

/// An exchange between ranks in the page's lane of exchanges.
struct PageExchange {
  int32_t begin = 0, end = 0;  ///< runs in ops [begin, end): its own op, or up to the one that waits for it
  int64_t bytes = 0;           ///< bytes that this rank sends to other ranks
};

/// Returns the exchanges of the trace by op: the largest, at most `max_drawn`.
std::vector<PageExchange> page_exchanges(const Trace& trace, size_t max_drawn = 16384);

/// Number of areas of the chart, into which the live bytes at an op are split: parameter, optimizer state, gradient,
/// activation, input, workspace, context.
constexpr int kPageAreas = 7;
int page_area(Role role);

/// Returns a name as text for the page, not yet escaped. Control characters are replaced, and it is cut at 160 columns,
/// so that a hostile name cannot make the page large.
std::string page_name(const std::string& name);

/// Returns the arrays, in the format that the script reads:
///
///     unit       bytes of one unit: the alignment of the arena
///     ops        total; index (deltas) of the ops that any other array names, and for these: name and module (indices
///                into strings), phase (0 initialize, 1 forward, 2 backward, 3 update, 4 evaluate; + 8 recomputed),
///                start (deltas, ns)
///     points     of the timeline: op (deltas) and, by area, live units (deltas). One for each op; if there are more
///                than `max_points` ops, one for each of `max_points` runs of ops: the op of its peak
///     exchanges  by exchange between ranks: op (deltas), length (ops), bytes
///     buffers    by buffer: label, role, bytes, offset (units), birth, length (ops), flags (1 persistent, 2 output)
nlohmann::json page_data(const PlanPage& page, const PageBuffers& buffers, size_t max_points = 32768);

}  // namespace plimsoll
