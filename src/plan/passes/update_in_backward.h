// Update in backward: each parameter is updated as soon as its gradient is complete, and the gradient's bytes return at
// once. Recorded, all gradients live until segment `update`.
//
//     one pass      micro    forward | backward … [norm p][update p] … [norm q][update q] …      update   total, finish
//     norms first   norms    forward | backward … [norm p] … [norm q] … | total, clip
//                   micro    forward | backward … [update p] … [update q] …                      update   finish
//     several       last     as accumulate, with updates as in one pass                              finish   total,
//     finish
//
// Where updates need the norm of all gradients (clipping, or float16's loss scale, which makes gradients overflow now
// and then), a first run of forward and backward takes only that; it draws the same random numbers. Otherwise a
// gradient that is not finite skips its own update and those after it: a loss that is not finite skips them all.
// With several micro batches the updates run in the last one (`last`, or `remainder` where that is smaller), and
// `update` stays for steps of one; the sums of gradients live through the others, whatever happens in the last.
//
// Runs first, on the trace as recorded: recompute must know when gradients die, and where parameters change. What
// recompute runs again may read a parameter after its update; settle_updates, right after it, moves such updates on.
// The same operations on the same numbers: bit-equal results. Lv et al., "Full parameter fine-tuning for large language
// models with limited resources" (LOMO), 2023.
#pragma once

#include <string>

#include "plimsoll/trace.h"

namespace plimsoll {

/// Why the trace's updates cannot run in backward, and what would change that; empty: they can.
std::string update_in_backward_obstacle(const Trace& trace);

/// Whether the pass runs forward and backward twice.
bool takes_norms_first(const Trace& trace);

/// The trace with its updates in backward. There is no obstacle.
Trace update_in_backward(Trace trace);

/// Moves update ops that stand among backward ops behind the last op of their segment that reads what they write.
Trace settle_updates(Trace trace);

}  // namespace plimsoll
