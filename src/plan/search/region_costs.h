// Declares the evaluation of region choices: the bytes and the time of each choice if all other regions keep
// everything.
#pragma once

#include <cstdint>
#include <vector>

#include "plan/search/choice_bytes.h"
#include "plan/search/recompute_regions.h"

namespace plimsoll {

/// A partition of the graph into regions of whole blocks, with the choices of each region and their bytes and time.
struct RegionPartition {
  struct EvaluatedChoice {
    const RegionChoice* choice;
    int64_t held = 0;  ///< bytes that the region's kept values take between its forward and its backward
    /// Largest sum of live bytes while the region runs forward or backward. The values of other regions are not in it;
    /// values that belong to no region are.
    int64_t peak = 0;
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
