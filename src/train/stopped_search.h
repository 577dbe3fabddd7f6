// The end of a search that its caller stops.
#pragma once

namespace plimsoll {

/// Thrown through the planner when the caller's function says not to go on; the search then returns what it has found.
struct SearchStopped {};

}  // namespace plimsoll
