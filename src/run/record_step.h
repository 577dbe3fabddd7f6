// Declares where a recorded step has the norms of its gradients and the sums of an evaluation, and a counter of this
// process's recordings for tests.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "plimsoll/trace.h"

namespace plimsoll {

/// A parameter's entry in the list of norms.
struct GradientNormEntry {
  std::string parameter;
  int64_t index = 0;  ///< index into the list
};

/// The list of the norms of all gradients, which keeps its bytes between segments, and what each entry is of.
struct GradientNorms {
  View norms;                              ///< float32; of kNoBuffer: the trace has no such list
  std::vector<GradientNormEntry> entries;  ///< in the order in which the backward pass writes the gradients first
};

/// Returns the norms of a recorded trace, before any pass. Parameters without a gradient have no entry. Empty if
/// gradients are sliced over ranks: a rank has only a slice of each.
GradientNorms gradient_norms_of(const Trace& recorded);

/// Name prefix of the outputs of a recorded step that are sums of an evaluation.
inline const std::string kSumPrefix = "sum:";

/// Returns how often this process has called record_step(). Safe from any thread.
int64_t recordings_made();

}  // namespace plimsoll
