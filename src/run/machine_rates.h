// Measures the rates that this machine's CPU reaches, by kind of op and dtype, in a few seconds.
#pragma once

#include "plimsoll/cost_model.h"

namespace plimsoll {

/// Times kernels of libtorch and of Plimsoll on sizes that fill a core's caches, on `threads` threads; returns the best
/// of a few runs. Allocates at most about 520 MiB. The caller sets `device` and `source`.
CostModel measure_rates(int threads);

}  // namespace plimsoll
