// The passes, in order.
//
//     recorded trace -> fold_casts -> update_in_backward, or not -> remove_dead_ops -> initialise_late ->
//     (choices are made here) -> recompute -> settle_updates -> offload -> fuse_norms -> fuse_pointwise ->
//     group_updates -> placement
#pragma once

#include "plimsoll/plan.h"

namespace plimsoll {

/// The recorded trace as every choice finds it.
Trace prepare_trace(Trace trace, bool updates_in_backward = false);

/// A trace on which all choices have been carried out, with ops that run within others, where `options` says so.
Trace fuse_trace(Trace trace, const PlanOptions& options);

}  // namespace plimsoll
