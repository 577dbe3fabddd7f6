// Declares the cost model of this machine's CPU: measured times and rates, and estimates until they are known.
#pragma once

#include <filesystem>

#include "plimsoll/cost_model.h"

namespace plimsoll {

/// Returns the folder of measurements: $XDG_CACHE_HOME/plimsoll or ~/.cache/plimsoll; empty if neither variable is an
/// absolute path.
std::filesystem::path measurements_folder();

/// Returns the file of op times in that folder, for `threads` CPU threads and the instruction set in use; empty if
/// there is no folder.
std::filesystem::path op_times_file(int threads);

/// Returns typical rates of `threads` CPU threads, for ops that have not been measured: those of server cores of about
/// 2020 with AVX-512. Only the speed of 16-bit matmuls relative to float32 matmuls is this machine's. The order in
/// which ops are timed depends on these rates, so that it does not depend on what was measured before.
CostModel typical_cost_model(int threads);

/// Returns the cost model for `threads` CPU threads: measured times for ops that were timed on this machine, rates for
/// others. Rates are those that inspect_machine() measured. Before it has run they are estimated from the speed of
/// float32 matmuls (ops::matmul_throughputs(), measured by the first call) and from a typical memory bandwidth.
CostModel machine_cost_model(int threads);

/// Times kernels of libtorch and of Plimsoll on sizes that fill a core's caches, on `threads` threads; returns the best
/// of a few runs. Allocates at most about 520 MiB. The caller sets `device` and `source`.
CostModel measure_rates(int threads);

}  // namespace plimsoll
