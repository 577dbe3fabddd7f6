// Declares the regions of ops between saved values, what recomputing them costs, and the bytes that it frees.
//
// A choice costs time (recomputed ops) and holds bytes (kept values). For a given price of a byte, the best choice of
// a region is a minimum cut:
//
//     keep v, or recompute its maker:   needed v --- price x bytes ---> maker
//     running an op costs time:         op --------- seconds ---------> end
//     and needs what it reads:          op --------- never -----------> each value read
//
// All prices together give the lower hull of (bytes, seconds). Regions of the same shape are solved once. The cut is
// that of Jain et al. (Checkmate, 2020) and of PyTorch's min-cut partitioner, which counts only bytes; here it also
// counts time.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "plan/passes/training_graph.h"
#include "plan/search/choice_bytes.h"
#include "plimsoll/planner.h"

namespace plimsoll {

/// A range [begin, end) of forward ops (indices into TrainingGraph::steps), and the values that only they make and
/// read.
struct Region {
  int32_t begin = 0;
  int32_t end = 0;
  bool block = false;           ///< true: it consists of blocks of the model
  std::vector<int32_t> values;  ///< ascending
};

/// Returns the regions between the borders of the model's blocks, `blocks` blocks each. A block is the part of the
/// module path up to the first number.
std::vector<Region> regions_of(const Trace& trace, const TrainingGraph& graph, int32_t blocks);

/// Returns the number of blocks that run forward.
int32_t count_blocks(const Trace& trace, const TrainingGraph& graph);

/// A choice of kept values for one region.
struct RegionChoice {
  std::vector<int32_t> kept;     ///< kept values of the region, ascending
  std::vector<int32_t> foreign;  ///< values of other regions that must be kept because recomputed ops read them
  int64_t bytes = 0;             ///< bytes of the kept values
  int64_t cost = 0;              ///< picoseconds of the recomputed ops
};

/// Returns for each region its choices, about `max_choices` at most, from everything kept to as little as possible.
std::vector<std::vector<RegionChoice>> choices_of(const TrainingGraph& graph, const std::vector<Region>& regions,
                                                  size_t max_choices = RecomputeParameters().max_region_choices);

/// Returns the bytes of values that are live at op `at` under every choice: those that it uses or makes, or that
/// forward still reads.
int64_t mandatory_live_bytes(const TrainingGraph& graph, int32_t at);

/// Returns a lower bound, in picoseconds, of the cost of any choice with at most `bytes` live at op `at` in addition to
/// mandatory_live_bytes(). It is the Lagrangian dual of the cut of the whole graph, in which a recomputed value is
/// recomputed at least once.
int64_t recompute_cost_lower_bound(const TrainingGraph& graph, int32_t at, int64_t bytes);

/// Returns the path of the block of a model that a module belongs to: "encoder.layers.3" for "encoder.layers.3.norm";
/// "" if no part of the path is a number.
inline std::string block_path(const std::string& module) {
  size_t begin = 0;
  while (begin < module.size()) {
    const size_t end = std::min(module.find('.', begin), module.size());
    const auto digit = [](char c) { return c >= '0' && c <= '9'; };
    if (std::all_of(module.begin() + static_cast<ptrdiff_t>(begin), module.begin() + static_cast<ptrdiff_t>(end),
                    digit))
      return module.substr(0, end);
    begin = end + 1;
  }
  return "";
}

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
