// Declares the evaluation of region choices: bytes and time of each, counted with everything kept in the other regions.
#pragma once

#include <cstdint>
#include <vector>

#include "plan/recompute/choice_bytes.h"
#include "plan/recompute/recompute_regions.h"

namespace plimsoll {

/// A partition of the graph into regions of whole blocks, with the choices of each region and their bytes and time. It
/// is not a minimum cut.
struct RegionPartition {
  struct EvaluatedChoice {
    const RegionChoice* choice;
    int64_t held = 0;  ///< bytes that it holds between its forward and its backward
    int64_t peak = 0;  ///< peak bytes while it runs forward or backward, with the bytes that no choice changes
    int64_t cost = 0;  ///< picoseconds of the recomputed ops
  };
  std::vector<Region> regions;
  std::vector<std::vector<RegionChoice>> choices;
  std::vector<std::vector<EvaluatedChoice>> evaluated;  ///< by region
};

/// Sets `partition.evaluated`. With several graphs, `held` and `peak` are the largest over the graphs; `cost` is that
/// of the first graph.
void evaluate_regions(const std::vector<TrainingGraph>& graphs, const std::vector<ChoiceBytes>& bytes,
                      RegionPartition& partition);

}  // namespace plimsoll
