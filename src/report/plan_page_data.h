// What the page of a plan draws, as compact arrays for its script.
//
// A plan of an 80-layer model has some 30 000 ops and 40 000 buffers. Names are kept once, in `strings`; indices and
// byte counts are written as differences to their predecessor ("deltas"), in units of the arena's alignment where they
// can be.
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
  std::vector<PageBuffer> drawn;  ///< largest first; the residents of the peak that the page names are among them
  std::vector<size_t> residents;  ///< what lives at the peak, largest first: indices into `drawn`
  size_t left_out = 0;            ///< buffers that are too many to draw
  int64_t left_out_largest = 0;   ///< bytes of the largest of them
  size_t residents_left = 0;      ///< live at the peak and not in `residents`, and their bytes together
  int64_t residents_left_bytes = 0;
};

/// The buffers of the map: at most `most_drawn`, and the `residents` largest of the peak.
PageBuffers page_buffers(const Plan& plan, size_t residents, size_t most_drawn = 40000);

/// An exchange between ranks, as the lane of exchanges shows it.
struct PageExchange {
  int32_t begin = 0, end = 0;  ///< runs in ops [begin, end): its own op, or up to the one that waits for it
  int64_t bytes = 0;           ///< that this rank sends to other ranks
};

/// The exchanges of the trace by op, at most `max_drawn`: the largest.
std::vector<PageExchange> page_exchanges(const Trace& trace, size_t max_drawn = 16384);

/// Bytes that are live at one op, by area of the chart: parameter, optimizer state, gradient, activation, input,
/// workspace, context.
constexpr int kPageAreas = 7;
int page_area(Role role);

/// A name as the page shows it, not yet escaped: without control characters, and cut at 160 columns: a name is there to
/// be read, and a hostile one must not make the page large.
std::string page_name(const std::string& name);

/// The arrays, as the script reads them:
///
///     unit       bytes of one unit: the alignment of the arena
///     ops        total; index (deltas) of the ops that anything below names, and by these: name, module (into
///     strings),
///                phase (0 initialize, 1 forward, 2 backward, 3 update, 4 evaluate; + 8 recomputed), start (deltas, ns)
///     points     of the timeline: op (deltas) and, by area, live units (deltas). One an op; of more than `most_points`
///                ops, as many runs, each with its fullest op
///     exchanges  by exchange between ranks: op (deltas), length (ops), bytes
///     buffers    by buffer: label, role, bytes, offset (units), birth, length (ops), flags (1 persistent, 2 output)
nlohmann::json page_data(const PlanPage& page, const PageBuffers& buffers, size_t most_points = 32768);

}  // namespace plimsoll
