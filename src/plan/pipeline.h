// The passes, in order.
//
//     recorded trace -> remove_dead_ops -> (choices are made here) -> recompute -> placement
#pragma once

#include "plimsoll/trace.h"

namespace plimsoll {

/// The recorded trace as every choice finds it.
Trace prepare_trace(Trace trace);

}  // namespace plimsoll
