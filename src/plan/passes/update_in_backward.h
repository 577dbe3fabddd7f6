// Declares the pass that updates each parameter in the backward pass, as soon as its gradient is complete.
//
// The gradient's bytes are then free immediately. In the recorded trace all gradients live until segment `update`.
//
//     one pass      micro    forward | backward … [norm p][update p] … [norm q][update q] …      update   total, finish
//     norms first   norms    forward | backward … [norm p] … [norm q] … | total, clip
//                   micro    forward | backward … [update p] … [update q] …                      update   finish
//     several       last     as accumulate, with updates as in one pass                              finish   total,
//     finish
//
// Updates depend on the norm of all gradients if there is clipping, or float16's loss scale, with which gradients
// overflow in some steps. A first run of forward and backward then computes only the norm; it draws the same random
// numbers. Without it, a gradient that is not finite skips its own update and those after it, and a loss that is not
// finite skips all updates. With several micro batches the updates run in the last one (`last`, or `remainder` if it is
// smaller). `update` stays for steps of one micro batch. Gradient accumulators live through the other micro batches,
// whatever happens in the last.
//
// The pass runs first, on the recorded trace: recompute must know when gradients die and when parameters change.
// Recomputed ops may read a parameter after its update; sink_updates, right after recompute, moves such updates
// behind these ops. The same operations run on the same values: bit-equal results. Source: Lv et al., "Full parameter
// fine-tuning for large language models with limited resources" (LOMO), 2023.
#pragma once

#include <string>

#include "plimsoll/trace.h"

namespace plimsoll {

/// Returns why the trace's updates cannot run in backward, and the remedy; empty: they can.
std::string update_in_backward_obstacle(const Trace& trace);

/// Returns whether the pass runs forward and backward twice.
bool needs_norm_pass(const Trace& trace);

/// Returns the trace with its updates in backward. There must be no obstacle.
Trace update_in_backward(Trace trace);

/// Returns the trace with update ops among backward ops moved behind the last op of their segment that reads what they
/// write.
Trace sink_updates(Trace trace);

}  // namespace plimsoll
