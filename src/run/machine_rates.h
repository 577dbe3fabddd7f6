// What this machine's CPU reaches, by kind of op and type: a few seconds of measuring.
#pragma once

#include "plimsoll/cost_model.h"

namespace plimsoll {

/// Times libtorch's and our own kernels on sizes that fill a core's caches, on `threads` threads, best of a few runs.
/// Takes about 200 MiB. `device` and `source` are left to the caller.
CostModel measure_rates(int threads);

}  // namespace plimsoll
