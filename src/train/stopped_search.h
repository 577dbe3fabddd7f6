// Declares the exception that ends a search when its caller stops it.
#pragma once

namespace plimsoll {

/// Thrown through the planner when the caller's function requests a stop; the search then returns what it has found.
struct SearchStopped {};

}  // namespace plimsoll
