// Declares a hash of the order in which the ranks of a training exchange tensors.
#pragma once

#include <string>

#include "plimsoll/trace.h"

namespace plimsoll {

/// Returns a hash of the exchanges of `trace`, by segment: names, sizes and dtypes in order. Ranks that run the same
/// step have the same hash.
std::string exchange_order(const Trace& trace);

}  // namespace plimsoll
