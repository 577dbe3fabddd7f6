#include "plan/search/recompute_search.h"

#include <algorithm>
#include <set>

#include "plan/search/choice_bytes.h"
#include "plan/search/recompute_regions.h"
#include "plimsoll/error.h"
#include "trace/trace_queries.h"

namespace plimsoll {
namespace {

// A choice for each of the first regions.
struct Partial {
  int64_t held = 0;      // bytes of the kept values
  int64_t cost = 0;      // picoseconds of the recomputed ops
  int32_t choice = 0;    // choice of the last region
  int32_t previous = 0;  // index of the partial solution that this one extends, in the front of the previous region
};

bool holds_less(const Partial& a, const Partial& b) {
  return a.held != b.held ? a.held < b.held : a.cost < b.cost;
}

// Reduces `list` to its Pareto front: the partial solutions for which no other has fewer bytes and less time, by rising
// bytes. If more than `max_partial` remain, they are divided into `max_partial` ranges of equal width in bytes, and
// only the cheapest of each range stays. `list` consists of sorted runs; `runs` has the index at which each begins.
void keep_front(std::vector<Partial>& list, std::vector<size_t> runs, size_t max_partial) {
  runs.push_back(list.size());
  while (runs.size() > 2) {
    std::vector<size_t> merged;
    for (size_t i = 0; i + 1 < runs.size(); i += 2) {
      merged.push_back(runs[i]);
      if (i + 2 >= runs.size()) continue;
      const auto at = [&](size_t run) { return list.begin() + static_cast<std::ptrdiff_t>(runs[run]); };
      std::inplace_merge(at(i), at(i + 1), at(i + 2), holds_less);
    }
    merged.push_back(list.size());
    runs = std::move(merged);
  }
  size_t count = 0;
  for (const Partial& partial : list)
    if (count == 0 || partial.cost < list[count - 1].cost) list[count++] = partial;
  list.resize(count);
  if (count <= max_partial) return;
  std::vector<Partial> thinned;
  const int64_t first = list.front().held, span = list.back().held - first;
  int64_t bucket = -1;
  for (const Partial& partial : list) {
    const auto here = static_cast<int64_t>(static_cast<double>(partial.held - first) / static_cast<double>(span) *
                                           static_cast<double>(max_partial - 1));
    // The bytes rise and the cost falls, so the last of a bucket is its cheapest.
    if (here == bucket)
      thinned.back() = partial;
    else
      thinned.push_back(partial);
    bucket = here;
  }
  thinned.front() = list.front();  // the solution with the fewest bytes decides whether a limit is feasible
  list = std::move(thinned);
}

}  // namespace

struct RecomputeSearch::Impl {
  Impl(const Trace& recorded, const CostModel& cost, const RecomputeParameters& limits)
      : trace(recorded), parameters(limits) {
    for (const Segment& segment : trace.segments) {
      if (!is_training(segment.kind)) continue;
      TrainingGraph graph = training_graph(trace, segment, cost);
      // One choice applies to all segments. A segment of another shape (for example with a gradient that forward makes)
      // keeps everything.
      if (graphs.empty() || same_shape(graphs.front(), graph))
        graphs.push_back(std::move(graph));
      else
        fixed_peak = std::max(fixed_peak, ChoiceBytes(trace, graph).peak(keep_all(graph)));
    }
    check(!graphs.empty(), "a trace without a training segment");
    for (const TrainingGraph& graph : graphs) bytes.emplace_back(trace, graph);
    find_decisions();
    const int32_t blocks = count_blocks(trace, graphs.front());
    for (int32_t group : {1, 2, 3, 4, 6, 8})
      if (group == 1 || 2 * group <= blocks) blocks_per_region.push_back(group);
    partitions.resize(blocks_per_region.size());
  }

  // Finds the values to decide over: droppable values, and temporaries that only forward ops read. Keeping a temporary
  // may save recomputed ops.
  void find_decisions() {
    const TrainingGraph& graph = graphs.front();
    for (size_t v = 0; v < graph.values.size(); ++v)
      if (graph.values[v].repeatable && (graph.values[v].needed() || !graph.values[v].readers.empty()))
        decisions.push_back(static_cast<int32_t>(v));
  }

  // Partitions into larger regions are made on demand, because only tight limits need them.
  const RegionPartition& partition(size_t index) {
    if (!partitions[index]) {
      partitions[index].emplace();
      partitions[index]->regions = regions_of(trace, graphs.front(), blocks_per_region[index]);
      partitions[index]->choices =
          choices_of(graphs.front(), partitions[index]->regions, parameters.max_region_choices);
      evaluate_regions(graphs, bytes, *partitions[index]);
    }
    return *partitions[index];
  }

  int64_t peak_of(const KeptValues& kept) const {
    int64_t peak = fixed_peak;
    for (const ChoiceBytes& each : bytes) peak = std::max(peak, each.peak(kept));
    return peak;
  }

  // Adds the values to `kept` that backward or recomputed ops read and that cannot be recomputed.
  KeptValues make_feasible(KeptValues kept) const {
    const TrainingGraph& graph = graphs.front();
    std::vector<char> there(kept.begin(), kept.end());
    std::vector<int32_t> work;
    for (size_t v = 0; v < kept.size(); ++v)
      if (!kept[v] && graph.values[v].needed()) work.push_back(static_cast<int32_t>(v));
    while (!work.empty()) {
      const int32_t v = work.back();
      work.pop_back();
      if (there[v]) continue;
      there[v] = 1;
      if (!graph.values[v].repeatable) {
        kept[v] = 1;
        continue;
      }
      for (int32_t maker : graph.values[v].makers)
        for (int32_t read : graph.steps[maker].reads)
          if (!there[read]) work.push_back(read);
    }
    return kept;
  }

  template <typename Visit>
  void for_every_choice(const Visit& visit) const {
    for (uint32_t set = 0; set < (1u << decisions.size()); ++set) {
      KeptValues kept = keep_all(graphs.front());
      for (size_t d = 0; d < decisions.size(); ++d) kept[decisions[d]] = (set >> d) & 1;
      visit(make_feasible(std::move(kept)));
    }
  }
  // Returns whether all combinations of the decisions are tried.
  bool is_exhaustive() const { return decisions.size() <= parameters.max_exhaustive_decisions; }

  RecomputeSolution solution(KeptValues kept) const {
    RecomputeSolution result;
    result.cost = bytes.front().cost(kept);
    result.peak = peak_of(kept);
    result.kept = std::move(kept);
    return result;
  }

  KeptValues kept_by(const RegionPartition& partition, const std::vector<int32_t>& picks) const {
    KeptValues kept = keep_all(graphs.front());
    for (size_t r = 0; r < picks.size(); ++r)
      for (int32_t v : partition.regions[r].values) kept[v] = 0;
    for (size_t r = 0; r < picks.size(); ++r) {
      for (int32_t v : partition.evaluated[r][picks[r]].choice->kept) kept[v] = 1;
      for (int32_t v : partition.evaluated[r][picks[r]].choice->foreign) kept[v] = 1;
    }
    return make_feasible(std::move(kept));
  }

  // Returns the cheapest combination of a partition's choices with at most `limit` bytes, by their evaluated bytes and
  // time; nullopt: no combination fits. `offloaded_picks`: the choice of each of the first regions, which is not
  // searched. These regions offload the values that they keep.
  std::optional<KeptValues> best_of(const RegionPartition& partition, int64_t limit,
                                    const std::vector<int32_t>& offloaded_picks = {}) const {
    std::vector<std::vector<Partial>> fronts{{Partial{}}};
    for (size_t r = 0; r < partition.regions.size(); ++r) {
      std::vector<Partial> next;
      if (r < offloaded_picks.size()) {  // it holds no bytes, because its kept values are offloaded
        const RegionPartition::EvaluatedChoice& evaluated = partition.evaluated[r][offloaded_picks[r]];
        const Partial& partial = fronts.back().front();
        fronts.push_back({{partial.held, partial.cost + evaluated.cost, offloaded_picks[r], 0}});
        continue;
      }
      std::vector<size_t> runs;
      for (size_t c = 0; c < partition.evaluated[r].size(); ++c) {
        const RegionPartition::EvaluatedChoice& evaluated = partition.evaluated[r][c];
        runs.push_back(next.size());
        for (size_t p = 0; p < fronts.back().size(); ++p) {
          const Partial& partial = fronts.back()[p];
          if (partial.held + evaluated.peak > limit) break;  // the partial solutions after it hold more
          next.push_back({partial.held + evaluated.held, partial.cost + evaluated.cost, static_cast<int32_t>(c),
                          static_cast<int32_t>(p)});
        }
      }
      keep_front(next, std::move(runs), parameters.max_partial_solutions);
      if (next.empty()) return std::nullopt;
      fronts.push_back(std::move(next));
    }
    std::vector<int32_t> picks(partition.regions.size());
    int32_t at = static_cast<int32_t>(fronts.back().size()) - 1;  // the last of a front takes the least time
    for (size_t r = partition.regions.size(); r-- > 0;) {
      const Partial& partial = fronts[r + 1][at];
      picks[r] = partial.choice;
      at = partial.previous;
    }
    return kept_by(partition, picks);
  }

  // Returns a choice in which each of the first `offloaded_regions` regions minimizes its time plus `price` x its
  // bytes. The others minimize time under the limit or, if nothing fits, bytes.
  KeptValues with_offload(int32_t offloaded_regions, double price, int64_t limit) {
    const RegionPartition& one_block = partition(0);
    std::vector<int32_t> picks;
    for (int32_t r = 0; r < offloaded_regions; ++r) {
      const auto& evaluated = one_block.evaluated[r];
      const auto priced = [&](const RegionPartition::EvaluatedChoice& each) {
        return static_cast<double>(each.cost) + price * static_cast<double>(each.held);
      };
      const auto best = std::min_element(evaluated.begin(), evaluated.end(),
                                         [&](const auto& a, const auto& b) { return priced(a) < priced(b); });
      picks.push_back(static_cast<int32_t>(best - evaluated.begin()));
    }
    // A value that several regions make or read belongs to no region, and every evaluated peak counts it as kept on the
    // device. If an offloaded region makes it, it is offloaded too, so the limit is raised by its bytes. The first loop
    // adds the bytes of all needed values that offloaded regions make. The second subtracts the values that belong to a
    // region, so that only the bytes of the values that belong to no region remain added.
    const TrainingGraph& graph = graphs.front();
    const auto first_that_stays = offloaded_regions < static_cast<int32_t>(one_block.regions.size())
                                      ? one_block.regions[offloaded_regions].begin
                                      : graph.steps.size();
    for (const ForwardValue& value : graph.values)
      if (value.needed() && value.makers.front() < static_cast<int32_t>(first_that_stays)) limit += value.bytes;
    for (int32_t r = 0; r < offloaded_regions; ++r)
      for (int32_t v : one_block.regions[r].values)
        if (graph.values[v].needed()) limit -= graph.values[v].bytes;
    if (auto kept = best_of(one_block, limit, picks)) return *kept;
    for (size_t r = picks.size(); r < one_block.regions.size(); ++r) {
      const auto& evaluated = one_block.evaluated[r];
      const auto least = std::min_element(evaluated.begin(), evaluated.end(),
                                          [](const auto& a, const auto& b) { return a.held < b.held; });
      picks.push_back(static_cast<int32_t>(least - evaluated.begin()));
    }
    return kept_by(one_block, picks);
  }

  // Returns a choice that keeps few bytes. For each region in forward order it takes, of the choices whose peak fits
  // the limit, the one that keeps the fewest bytes. nullopt: a region has no such choice.
  std::optional<KeptValues> min_memory_choice_of(const RegionPartition& partition, int64_t limit) const {
    int64_t held = 0;
    std::vector<int32_t> picks;
    for (const auto& evaluated : partition.evaluated) {
      int32_t best = -1;
      for (size_t c = 0; c < evaluated.size(); ++c) {
        if (held + evaluated[c].peak > limit) continue;
        if (best < 0 || evaluated[c].held < evaluated[best].held) best = static_cast<int32_t>(c);
      }
      if (best < 0) return std::nullopt;
      held += evaluated[best].held;
      picks.push_back(best);
    }
    return kept_by(partition, picks);
  }

  // Returns `kept` with more values kept, up to the limit. Values are tried one by one, those first that save the most
  // recomputation time per byte. A value is kept if that saves time and fits.
  KeptValues refined(KeptValues kept, int64_t limit) const {
    const TrainingGraph& graph = graphs.front();
    std::vector<std::pair<double, int32_t>> order;
    for (const int32_t step : recompute_sequence(graph, kept).steps)
      for (int32_t v : graph.steps[step].writes)
        if (!kept[v])
          order.emplace_back(-static_cast<double>(graph.steps[step].cost) / static_cast<double>(graph.values[v].bytes),
                             v);
    std::sort(order.begin(), order.end());
    const size_t most = parameters.refinement_work / (graph.values.size() + graph.steps.size() + 1) + 1;
    if (order.size() > most) order.resize(most);
    RecomputeCost cost(graph, kept);
    size_t tightest = 0;  // the last graph that exceeded the limit; it is tested first, because it often does so again
    const auto fits = [&] {
      for (size_t i = 0; i < bytes.size(); ++i)
        if (const size_t g = (tightest + i) % bytes.size(); bytes[g].peak(kept) > limit) {
          tightest = g;
          return false;
        }
      return fixed_peak <= limit;
    };
    for (const auto& [worth, v] : order) {
      if (kept[v]) continue;  // a value with several makers has several entries
      kept[v] = 1;
      if (cost.keep(v) > 0 && fits()) continue;
      kept[v] = 0;
      cost.undo();
    }
    return kept;
  }

  // Returns for each graph the op with the most live bytes under a choice.
  std::vector<int32_t> peak_ops(const KeptValues& kept) const {
    std::vector<int32_t> ops;
    for (size_t g = 0; g < graphs.size(); ++g) ops.push_back(bytes[g].peak_op(kept));
    return ops;
  }

  // Returns a lower bound of the cost under `limit`: the largest of the bounds at three ops of each graph. They are the
  // first op of backward, the op at the peak of keep-all, and the op at the peak of `kept`.
  int64_t lower_bound(int64_t limit, const KeptValues& kept) const {
    int64_t best = 0;
    const std::vector<int32_t> all = peak_ops(keep_all(graphs.front())), chosen = peak_ops(kept);
    for (size_t g = 0; g < graphs.size(); ++g) {
      const TrainingGraph& graph = graphs[g];
      if (graph.first_backward >= graph.segment.end) continue;
      for (int32_t at : std::set<int32_t>{graph.first_backward, all[g], chosen[g]})
        best = std::max(best, recompute_cost_lower_bound(
                                  graph, at, limit - bytes[g].fixed_at(at) - mandatory_live_bytes(graph, at)));
    }
    return best;
  }

  // Returns the solution with the smallest peak over all partitions.
  const RecomputeSolution& min_memory_solution() {
    if (min_memory_solution_) return *min_memory_solution_;
    const auto consider = [&](const KeptValues& kept) {
      RecomputeSolution candidate = solution(kept);
      if (!min_memory_solution_ || candidate.peak < min_memory_solution_->peak ||
          (candidate.peak == min_memory_solution_->peak && candidate.cost < min_memory_solution_->cost))
        min_memory_solution_ = std::move(candidate);
    };
    consider(keep_all(graphs.front()));
    if (is_exhaustive()) {
      for_every_choice(consider);
      return *min_memory_solution_;
    }
    for (size_t index = 0; index < blocks_per_region.size(); ++index) {
      std::optional<KeptValues> min_memory;
      for (int64_t low = 0, high = min_memory_solution_->peak; low < high;) {
        const int64_t middle = low + (high - low) / 2;
        if (auto kept = min_memory_choice_of(partition(index), middle)) {
          min_memory = std::move(kept);
          high = middle;
        } else {
          low = middle + 1;
        }
      }
      if (min_memory) consider(*min_memory);
    }
    // best_of() estimates the peak of a choice by a sum over regions, which may be too high. Choices whose estimate is
    // up to 20 % above the smallest real peak so far are therefore tried as well.
    const int rounds =
        graphs.front().values.size() <= parameters.max_values_improved ? parameters.improvement_rounds : 0;
    for (int round = 0; round < rounds; ++round) {
      const int64_t before = min_memory_solution_->peak;
      for (size_t index = 0; index < blocks_per_region.size(); ++index)
        for (int percent : {100, 105, 110, 120})
          if (const auto kept = best_of(partition(index), before / 100 * percent)) {
            consider(*kept);
            // Keeping more values can also lower the peak, because fewer values are recomputed together.
            consider(refined(*kept, before));
          }
      if (min_memory_solution_->peak == before) break;
    }
    return *min_memory_solution_;
  }

  const Trace& trace;
  const RecomputeParameters parameters;
  std::vector<TrainingGraph> graphs;
  std::vector<ChoiceBytes> bytes;
  int64_t fixed_peak = 0;                  // peak of training segments without a choice
  std::vector<int32_t> blocks_per_region;  // number of blocks in a region, by partition
  std::vector<std::optional<RegionPartition>> partitions;
  std::vector<int32_t> decisions;
  std::optional<RecomputeSolution> min_memory_solution_;
};

RecomputeSearch::RecomputeSearch(const Trace& trace, const CostModel& cost, const RecomputeParameters& parameters)
    : impl_(std::make_unique<Impl>(trace, cost, parameters)) {}
RecomputeSearch::~RecomputeSearch() = default;

const std::vector<TrainingGraph>& RecomputeSearch::graphs() const {
  return impl_->graphs;
}

RecomputeSolution RecomputeSearch::keep_all_solution() const {
  RecomputeSolution result = impl_->solution(keep_all(impl_->graphs.front()));
  result.exact = true;
  return result;
}

RecomputeSolution RecomputeSearch::checkpoint_blocks(const std::string& module) const {
  const Trace& trace = impl_->trace;
  KeptValues kept = keep_all(impl_->graphs.front());
  for (const Region& region : regions_of(trace, impl_->graphs.front(), 1)) {
    if (!region.block) continue;
    const std::string& path = trace.modules[trace.ops[impl_->graphs.front().steps[region.begin].op].module];
    if (!module.empty() && !path.starts_with(module + ".")) continue;
    for (int32_t v : region.values)
      if (impl_->graphs.front().droppable(v)) kept[v] = 0;
  }
  return impl_->solution(impl_->make_feasible(std::move(kept)));
}

std::optional<RecomputeSolution> RecomputeSearch::cheapest(int64_t limit) const {
  RecomputeSolution all = keep_all_solution();
  if (all.peak <= limit) return all;
  std::optional<RecomputeSolution> best;
  const auto consider = [&](KeptValues kept) {
    RecomputeSolution candidate = impl_->solution(std::move(kept));
    if (candidate.peak > limit) return false;
    if (!best || candidate.cost < best->cost || (candidate.cost == best->cost && candidate.peak < best->peak))
      best = std::move(candidate);
    return true;
  };
  if (impl_->is_exhaustive()) {
    impl_->for_every_choice(consider);
    if (best) {
      best->exact = true;
      best->lower_bound = best->cost;
    }
    return best;
  }
  int64_t lower_bound = impl_->lower_bound(limit, all.kept);
  for (size_t index = 0; index < impl_->blocks_per_region.size(); ++index) {
    // The estimate of best_of() may be too low, because values may live longer than their region. The partition is then
    // searched again, under a limit that is lowered by the excess.
    int64_t search_limit = limit;
    for (int attempt = 0; attempt < impl_->parameters.max_limit_attempts; ++attempt) {
      const auto kept = impl_->best_of(impl_->partition(index), search_limit);
      if (!kept) break;
      if (consider(*kept)) {
        consider(impl_->refined(*kept, limit));
        break;
      }
      search_limit -= impl_->peak_of(*kept) - limit;
    }
    if (best &&
        static_cast<double>(best->cost) <= impl_->parameters.accepted_cost_ratio * static_cast<double>(lower_bound))
      break;
  }
  consider(impl_->min_memory_solution().kept);
  if (!best) return best;
  lower_bound = std::max(lower_bound, impl_->lower_bound(limit, best->kept));
  best->lower_bound = std::min(best->cost, lower_bound);
  return best;
}

int32_t RecomputeSearch::region_count() const {
  return static_cast<int32_t>(impl_->partition(0).regions.size());
}

std::vector<int32_t> RecomputeSearch::region_of_values() const {
  const TrainingGraph& graph = graphs().front();
  const std::vector<Region>& regions = impl_->partition(0).regions;
  std::vector<int32_t> result;
  for (const ForwardValue& value : graph.values) {
    const auto after = std::upper_bound(regions.begin(), regions.end(), value.makers.front(),
                                        [](int32_t step, const Region& region) { return step < region.begin; });
    result.push_back(static_cast<int32_t>(after - regions.begin()) - 1);
  }
  return result;
}

KeptValues RecomputeSearch::cheapest_with_offload(int32_t offloaded_regions, double price, int64_t limit) const {
  return impl_->with_offload(offloaded_regions, price, limit);
}

int64_t RecomputeSearch::lower_bound(int64_t limit) const {
  return impl_->lower_bound(limit, keep_all(impl_->graphs.front()));
}

const std::vector<int32_t>& RecomputeSearch::decisions() const {
  return impl_->decisions;
}

KeptValues RecomputeSearch::make_feasible(KeptValues kept) const {
  return impl_->make_feasible(std::move(kept));
}

RecomputeSolution RecomputeSearch::min_memory_solution() const {
  return impl_->min_memory_solution();
}

}  // namespace plimsoll
