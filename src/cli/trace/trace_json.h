// A trace as JSON: everything but the constants' bytes.
#pragma once

#include <cstdint>
#include <vector>

#include "cli/json_output.h"
#include "plimsoll/trace.h"

namespace plimsoll::cli {

/// {"buffers", "ops", "segments", "inputs", "outputs", "state"}. `offsets`: by buffer, where the plan placed it, in
/// bytes (null: never used); empty: left out. Lifetimes are half-open, in op indices.
Json trace_json(const Trace& trace, const std::vector<int64_t>& offsets);

}  // namespace plimsoll::cli
