// Limits of the planner's searches: how much is tried, and from which sizes on less is tried.
//
// The searches count their work and read no clock, so plans are the same on every machine. More work seldom gives a
// better plan: the defaults are those that all measured plans were made with.
#pragma once

#include <cstddef>
#include <cstdint>

namespace plimsoll {

/// Limits of the tree search for offsets, and of the searches next to it.
struct TreeSearchParameters {
  size_t max_boxes = 3000;                  ///< buffers of a problem that is searched, at most
  int64_t max_meetings = int64_t{1} << 22;  ///< of a problem that is searched: ordered pairs of buffers that are live
                                            ///< at the same time, at most
  size_t max_infeasible_states = size_t{1} << 20;  ///< states remembered as infeasible; each takes tens of bytes
  int orders = 4;                                  ///< orders of buffers that are tried, 1 to 4
  int64_t promotion_placements = 20000;  ///< single-buffer placements of the short search before it; at most an eighth
                                         ///< of the effort
  uint64_t seed = 0;                     ///< added to the seed of random orders
};

/// Limits of the search for what to recompute.
struct RecomputeParameters {
  size_t max_exhaustive_decisions = 12;  ///< values, kept or not, for which all combinations are tried; at most 30
  size_t refinement_work = 4'000'000;    ///< values and ops visited in refining one solution; about 0.1 s
  double accepted_cost_ratio = 1.01;     ///< cost over its lower bound at which larger regions are not tried
  size_t max_values_improved = 400;      ///< values of forward for which the minimum-memory solution is improved
  int improvement_rounds = 4;            ///< rounds that improve the minimum-memory solution, at most
  size_t max_partial_solutions = 1024;   ///< partial solutions kept for each region, at least 2
  size_t max_region_choices = 24;        ///< choices kept for one region, approximately at most
  int max_limit_attempts = 8;            ///< lower limits tried for one cut into regions
};

/// Limits of the search for what to offload.
struct OffloadParameters {
  size_t max_exhaustive_combinations =
      128;                          ///< combinations of kept and offloaded values that are all tried; less than 2^20
  size_t evaluation_work = 60'000;  ///< ops visited for one limit; about a second
  int min_evaluations = 10;         ///< combinations evaluated for one limit, at least
  int max_evaluations = 40;         ///< combinations evaluated for one limit, at most; at least min_evaluations
  int64_t max_value_ratio = 256;    ///< bytes of the largest saved value over those of the smallest offloaded; at
                                    ///< least 1
  int64_t max_buffer_ratio = 1024;  ///< bytes of the largest buffer of state, gradients or parameters over those of the
                                    ///< smallest offloaded one; at least 1
  int max_limit_attempts = 3;       ///< lower limits tried for one combination
  int bound_steps = 6;              ///< bisections of the lower bound
  int steps_per_kind = 8;           ///< parts in which a kind (gradients, parameters) is offloaded; at least 1
};

/// Limits of the passes that merge ops into one.
struct MergingParameters {
  int32_t max_distance = 256;  ///< ops between the first and the last of a merged pair or group
  size_t max_open_groups =
      8;  ///< open groups, each compared with every op that follows; at least 1. Updates need few: optimizers
          ///< have those with and without weight decay, and with and without a companion
  /// Elements of a parameter that is updated in a group. A larger one, 7 MiB of traffic and more with AdamW and
  /// float32, keeps all threads and a GPU's blocks busy by itself.
  int64_t max_grouped_elements = int64_t{1} << 18;
  /// Elements of a group of updates. A profile shows, and a run that is asked to stop waits for, milliseconds.
  int64_t max_group_elements = int64_t{1} << 21;
};

/// Limits of all searches of the planner.
struct SolverParameters {
  int max_placement_attempts = 12;  ///< schedules placed for one answer because placement took more than the live bytes
  size_t large_trace_ops = 1500;    ///< ops of a trace from which on fewer alternatives are placed
  /// Part of the time of recomputed ops that is left when some of them are merged into others. 0.98 was measured.
  double unmerged_recompute_fraction = 0.95;
  int64_t placement_effort = 100000;  ///< single-buffer placements (about a microsecond each) of one arena's search
  TreeSearchParameters tree_search;
  RecomputeParameters recompute;
  OffloadParameters offload;
  MergingParameters merging;
};

}  // namespace plimsoll
