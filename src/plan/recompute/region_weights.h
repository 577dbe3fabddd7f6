// What each choice of a region takes in bytes and in time, counted by carrying it out with all else kept.
#pragma once

#include <cstdint>
#include <vector>

#include "plan/recompute/choice_bytes.h"
#include "plan/recompute/recompute_regions.h"

namespace plimsoll {

/// The regions of a cut into groups of blocks, their choices, and what each choice takes.
struct RegionCut {
  struct Weighed {
    const RegionChoice* choice;
    int64_t held = 0;  ///< bytes between the region's forward and its backward
    int64_t peak = 0;  ///< bytes while it is forward or backward, all that no choice changes included
    int64_t cost = 0;  ///< picoseconds of the steps run again
  };
  std::vector<Region> regions;
  std::vector<std::vector<RegionChoice>> choices;
  std::vector<std::vector<Weighed>> weighed;  ///< by region
};

/// Fills in `cut.weighed`. Of several graphs of one shape the most bytes, and the first one's time.
void weigh_regions(const std::vector<TrainingGraph>& graphs, const std::vector<ChoiceBytes>& bytes, RegionCut& cut);

}  // namespace plimsoll
