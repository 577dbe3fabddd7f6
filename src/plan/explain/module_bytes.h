// What fills the memory at a plan's peak, by the parts of the model.
#pragma once

#include <string>
#include <vector>

#include "plimsoll/plan.h"

namespace plimsoll {

/// A part of the model by the first word of its dotted path ("vision", "llm"), and what it has of the peak; "": what no
/// part has for itself: inputs, context, what libraries set aside, fragmentation, scratch of the update.
struct ModuleBytes {
  std::string module;
  Breakdown bytes;
};

/// By falling bytes, "" last; each kind of bytes adds up to the plan's breakdown. Parameters, gradients and optimizer
/// state belong where the parameter does, other values to the part whose operator made them, which is the one that read
/// a parameter last (docs/architecture.md).
std::vector<ModuleBytes> bytes_by_module(const Plan& plan);

}  // namespace plimsoll
