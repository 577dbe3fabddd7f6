// Formats a trace as JSON: everything except the bytes of constants.
#pragma once

#include <cstdint>
#include <vector>

#include "cli/json_output.h"
#include "plimsoll/trace.h"

namespace plimsoll::cli {

/// Returns {"buffers", "ops", "segments", "inputs", "outputs", "state"}. `offsets`: planned offset of each buffer in
/// bytes (null: never used); an empty vector is left out. Lifetimes are half-open, in op indices.
Json trace_json(const Trace& trace, const std::vector<int64_t>& offsets);

}  // namespace plimsoll::cli
