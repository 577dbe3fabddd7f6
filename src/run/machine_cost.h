// How fast this machine's CPU is: typical figures, until it has been measured.
#pragma once

#include <filesystem>

#include "plimsoll/cost_model.h"

namespace plimsoll {

/// Where measurements are kept: $XDG_CACHE_HOME/plimsoll or ~/.cache/plimsoll; empty where there is neither.
std::filesystem::path measurements_folder();

/// The file there of ops' times on `threads` CPU threads, with the instructions that are used now; empty without it.
std::filesystem::path op_times_file(int threads);

/// Returns typical rates of `threads` CPU threads, for what has not been measured: those of server cores of about 2020
/// with AVX-512. Only the speed of 16-bit products relative to float32 products is this machine's.
CostModel typical_cost_model(int threads);

/// For `threads` CPU threads: ops that were timed on this machine by what they took, others by typical rates.
CostModel machine_cost_model(int threads);

}  // namespace plimsoll
