// Cuts a training graph into regions, one after the other, and finds for each the choices worth having.
//
// A choice costs time (steps run again) and holds bytes (values kept). For a price of a byte, the best choice of a
// region is a minimum cut:
//
//     keep v, or run its maker again:   needed v --- price x bytes ---> maker
//     running a step costs time:        step ------- seconds ---------> end
//     and wants what it reads:          step ------- never -----------> each value read
//
// All prices together give the lower hull of (bytes, seconds). Regions of the same shape are solved once.
// The cut is that of Jain et al. (Checkmate, 2020) and of PyTorch's min-cut partitioner, with time where that counts
// bytes alone.
#pragma once

#include <cstdint>
#include <vector>

#include "plan/graph/training_graph.h"
#include "plimsoll/plan.h"

namespace plimsoll {

/// Forward steps [begin, end), and the values that only they make and read: those are the region's own to choose over.
struct Region {
  int32_t begin = 0;
  int32_t end = 0;
  bool block = false;           ///< it consists of blocks of the model
  std::vector<int32_t> values;  ///< ascending
};

/// Cuts at the borders of the model's blocks (the part of the module path up to the first number), `blocks` of them a
/// region.
std::vector<Region> regions_of(const Trace& trace, const TrainingGraph& graph, int32_t blocks);

/// How many blocks run forward.
int32_t count_blocks(const Trace& trace, const TrainingGraph& graph);

/// One way to treat a region.
struct RegionChoice {
  std::vector<int32_t> kept;     ///< of the region's values, ascending
  std::vector<int32_t> foreign;  ///< values of other regions that must stay because steps run again read them
  int64_t bytes = 0;             ///< of what is kept
  int64_t cost = 0;              ///< picoseconds of the steps run again
};

/// For each region its choices, about `max_choices` at most, from everything kept to as little as possible.
std::vector<std::vector<RegionChoice>> choices_of(const TrainingGraph& graph, const std::vector<Region>& regions,
                                                  size_t max_choices = RecomputeParameters().max_region_choices);

/// Bytes of values that are live while op `at` runs whatever is chosen: what it uses, makes, or what forward still
/// reads.
int64_t given_bytes(const TrainingGraph& graph, int32_t at);

/// A lower bound of the picoseconds that any choice of kept values spends, if no more than `bytes` may be live at op
/// `at` beside the given ones. By Lagrangian duality on the cut of the whole graph: a value that is rebuilt is rebuilt
/// at least once.
int64_t recompute_cost_bound(const TrainingGraph& graph, int32_t at, int64_t bytes);

}  // namespace plimsoll
