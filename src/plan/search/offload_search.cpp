#include "plan/search/offload_search.h"

#include <algorithm>
#include <limits>
#include <set>

#include "plan/passes/pipeline.h"
#include "plimsoll/trace.h"

namespace plimsoll {
namespace {

bool better(const OffloadSolution& a, const OffloadSolution& b) {
  if (a.seconds != b.seconds) return a.seconds < b.seconds;
  return a.peak < b.peak;
}

bool needs_less_memory(const OffloadSolution& a, const OffloadSolution& b) {
  if (a.peak != b.peak) return a.peak < b.peak;
  return a.seconds < b.seconds;
}

// Returns a reduced trace for the search, with the same op indices. Ops of training segments keep their operands and
// their time (in `flops`, for skeleton_cost()). Of all other ops only the first and last use of each buffer is kept.
// If ops after training use offloaded buffers, one additional op at the end reads these instead.
Trace skeleton(const Trace& trace, const RecomputeSearch& search, const CostModel& cost) {
  Trace result;
  result.buffers = trace.buffers;
  result.segments = trace.segments;
  result.alignment = trace.alignment;
  result.constants.reserve(trace.constants.size());
  for (const ConstantData& constant : trace.constants) result.constants.push_back({constant.buffer, {}});
  // The skeleton drops the ops that write offloaded buffers before training. These buffers are listed as constants
  // instead, so that a copy in precedes their first use.
  for (int32_t i = 0; i < search.graphs().front().segment.begin; ++i)
    for_each_view(trace.ops[i], [&](const View& view, bool written) {
      if (written && !trace.buffers[view.buffer].on_device()) result.constants.push_back({view.buffer, {}});
    });
  for (Buffer& buffer : result.buffers) buffer.label.clear();
  result.ops.resize(trace.ops.size());
  std::vector<char> training(trace.ops.size(), 0);
  for (const TrainingGraph& graph : search.graphs())
    std::fill(training.begin() + graph.segment.begin, training.begin() + graph.segment.end, 1);
  for (size_t i = 0; i < trace.ops.size(); ++i) {
    if (!training[i]) continue;
    const Op& op = trace.ops[i];
    Op& reduced = result.ops[i];
    reduced.phase = op.phase;
    reduced.flops = seconds_of(cost, op);
    reduced.workspace_bytes = op.workspace_bytes;
    std::vector<View> read, written;
    for_each_view(op, [&](const View& view, bool writes) { (writes ? written : read).push_back({view.buffer}); });
    reduced.arguments.push_back({Argument::Kind::tensor_list, false, std::move(read)});
    reduced.arguments.push_back({Argument::Kind::tensor_list, true, std::move(written)});
  }
  const std::vector<Lifetime> lifetimes = lifetimes_of(trace);
  // Reads the offloaded buffers that ops after training use, so that the training segments copy them out. It is in no
  // segment, so no copies are planned for the op itself.
  Op after_training;
  for (size_t b = 0; b < trace.buffers.size(); ++b) {
    if (trace.buffers[b].persistent || lifetimes[b].birth >= lifetimes[b].death) continue;
    const int32_t last = lifetimes[b].death - 1;
    const Argument argument{Argument::Kind::tensor, false, {{static_cast<BufferId>(b)}}};
    if (!trace.buffers[b].on_device()) {
      if (!training[last]) after_training.arguments.push_back(argument);
      continue;
    }
    for (int32_t at : {lifetimes[b].birth, last})
      if (!training[at]) result.ops[at].arguments.push_back(argument);
  }
  if (!after_training.arguments.empty()) result.ops.push_back(std::move(after_training));
  return result;
}

CostModel skeleton_cost(CostModel cost) {
  cost.measured_seconds = [](const Op& op) { return op.flops; };
  return cost;
}

}  // namespace

OffloadSearch::OffloadSearch(const Trace& trace, const RecomputeSearch& search, const CostModel& cost,
                             const OffloadParameters& parameters)
    : trace_(trace),
      search_(search),
      cost_(cost),
      parameters_(parameters),
      skeleton_(skeleton(trace, search, cost)),
      skeleton_cost_(skeleton_cost(cost)),
      micro_seconds_(segment_seconds(cost, trace, SegmentKind::micro)) {}

OffloadSolution OffloadSearch::evaluate(const KeptValues& kept, std::vector<char> offloaded, int64_t limit) const {
  PlanChoices choices;
  choices.recompute = true;
  choices.kept = kept;
  choices.offload = true;
  choices.offloaded = offloaded;
  choices.copy_limit_bytes = limit;
  const Trace trace = apply_choices(skeleton_, choices, search_.graphs(), skeleton_cost_);
  OffloadSolution solution;
  const std::vector<int64_t> live = transient_bytes_by_op(trace, lifetimes_of(trace));
  for (const TrainingGraph& graph : search_.graphs()) {
    const Segment* segment = trace.segment(graph.segment.kind);
    for (int32_t op = segment->begin; op < segment->end; ++op) solution.peak = std::max(solution.peak, live[op]);
  }
  solution.seconds = segment_seconds(skeleton_cost_, trace, SegmentKind::micro) - micro_seconds_;
  const TrainingGraph& graph = search_.graphs().front();
  for (size_t v = 0; v < offloaded.size(); ++v)
    if (offloaded[v]) solution.host_bytes += graph.values[v].bytes;
  solution.kept = kept;
  solution.offloaded = std::move(offloaded);
  return solution;
}

// Returns the kept values to offload, in the order in which they are made, up to `host_limit` bytes. A value that is
// much smaller than the largest is not worth a copy's overhead.
std::vector<char> OffloadSearch::offloadable(const KeptValues& kept, int64_t host_limit) const {
  const TrainingGraph& graph = search_.graphs().front();
  std::vector<char> offloaded(kept.size(), 0);
  int64_t host = 0, largest = 0;
  for (const ForwardValue& value : graph.values)
    if (value.needed()) largest = std::max(largest, value.bytes);
  for (size_t v = 0; v < kept.size(); ++v) {
    const ForwardValue& value = graph.values[v];
    if (!kept[v] || !value.needed() || value.bytes < largest / parameters_.max_value_ratio) continue;
    if (host + value.bytes > host_limit) continue;
    host += value.bytes;
    offloaded[v] = 1;
  }
  return offloaded;
}

// Suppose that a choice takes `seconds` more than keep-all. The link can then copy at most `offloaded` bytes out:
// during the whole micro batch if copies overlap ops, otherwise in half of `seconds`, because each byte is also copied
// back. The bytes that are not offloaded must fit the limit by recomputation, which takes at least recomputed(seconds).
// If that is more than `seconds`, no choice takes only `seconds` more, so `seconds` is a lower bound. Bisection
// approaches the largest such `seconds` from below.
double OffloadSearch::lower_bound(int64_t limit, int64_t host_limit) const {
  const auto recomputed = [&](double seconds) {
    const double link = cost_.copies_overlap ? micro_seconds_ + seconds : seconds / 2;
    const double offloaded = std::min(static_cast<double>(host_limit), link * cost_.host_link);
    return static_cast<double>(search_.lower_bound(limit + static_cast<int64_t>(offloaded))) * 1e-12;
  };
  double low = 0, high = recomputed(0);
  if (high <= 0) return 0;
  for (int i = 0; i < parameters_.bound_steps; ++i) {
    const double middle = (low + high) / 2;
    (recomputed(middle) > middle ? low : high) = middle;
  }
  return low;
}

std::optional<OffloadSolution> OffloadSearch::cheapest(int64_t limit, int64_t host_limit, const KeptValues* fixed,
                                                       bool without_block_checkpointing) const {
  std::optional<OffloadSolution> best;
  // By proposal (kept and offloaded values): its peak less `limit`, in bytes. A proposal is evaluated only once.
  std::map<std::pair<KeptValues, std::vector<char>>, int64_t> considered;
  const auto consider = [&](const KeptValues& kept, std::vector<char> offloaded) -> int64_t {
    const auto [at, added] = considered.try_emplace({kept, offloaded});
    if (!added) return at->second;
    OffloadSolution solution = evaluate(kept, std::move(offloaded), limit);
    const int64_t excess = at->second = solution.peak - limit;
    if (excess <= 0 && (!best || better(solution, *best))) best = std::move(solution);
    return excess;
  };
  const TrainingGraph& graph = search_.graphs().front();
  const auto none_offloaded = [&] { return std::vector<char>(graph.values.size(), 0); };
  consider(fixed ? *fixed : keep_all(graph), none_offloaded());
  if (best) return best;  // everything stays on the device

  // If there are few combinations, all are tried.
  const size_t decisions = fixed ? 0 : search_.decisions().size();
  size_t combinations = size_t{1} << std::min<size_t>(decisions, 20);
  for (const ForwardValue& value : graph.values)
    combinations *= value.needed() && combinations <= parameters_.max_exhaustive_combinations ? 2 : 1;
  if (combinations <= parameters_.max_exhaustive_combinations) {
    if (const auto without = fixed ? std::nullopt : search_.cheapest(limit)) consider(without->kept, none_offloaded());
    for (size_t set = 0; set < (size_t{1} << decisions); ++set) {
      KeptValues kept = fixed ? *fixed : keep_all(graph);
      for (size_t d = 0; d < decisions; ++d) kept[search_.decisions()[d]] = (set >> d) & 1;
      if (!fixed) kept = search_.make_feasible(std::move(kept));
      std::vector<int32_t> candidates;
      const std::vector<char> all = offloadable(kept, host_limit);
      for (size_t v = 0; v < all.size(); ++v)
        if (all[v]) candidates.push_back(static_cast<int32_t>(v));
      for (size_t combination = 1; combination < (size_t{1} << candidates.size()); ++combination) {
        std::vector<char> offloaded = none_offloaded();
        for (size_t i = 0; i < candidates.size(); ++i) offloaded[candidates[i]] = (combination >> i) & 1;
        consider(kept, std::move(offloaded));
      }
    }
  } else {
    const std::vector<int32_t> region_of = search_.region_of_values();
    const int32_t regions = search_.region_count();
    int evaluations = static_cast<int>(std::clamp(parameters_.evaluation_work / (trace_.ops.size() + 1),
                                                  static_cast<size_t>(parameters_.min_evaluations),
                                                  static_cast<size_t>(parameters_.max_evaluations)));
    // Tries to offload the values that the first k regions keep.
    const auto propose = [&](int32_t k, double price) {
      int64_t search_limit = limit;
      for (int attempt = 0; attempt < parameters_.max_limit_attempts && evaluations > 0; ++attempt, --evaluations) {
        const KeptValues kept = fixed ? *fixed : search_.cheapest_with_offload(k, price, search_limit);
        std::vector<char> offloaded = offloadable(kept, host_limit);
        for (size_t v = 0; v < offloaded.size(); ++v) offloaded[v] = offloaded[v] && region_of[v] < k;
        const int64_t excess = consider(kept, std::move(offloaded));
        if (fixed || excess <= 0) break;
        search_limit -= excess;
      }
    };
    const double link = 1e12 / cost_.host_link;  // picoseconds a byte
    const std::vector<double> prices =
        cost_.copies_overlap ? std::vector<double>{link, link / 8, link / 2} : std::vector<double>{2 * link};
    // For each price, five values of k are tried, and then values ever closer around the best k so far.
    int32_t best_k = regions;
    for (double price : prices) {
      std::set<int32_t> tried_k;
      const auto try_k = [&](int32_t k) {
        if (k < 0 || k > regions || evaluations <= 0 || !tried_k.insert(k).second) return;
        const double before = best ? best->seconds : std::numeric_limits<double>::infinity();
        propose(k, price);
        if (best && best->seconds < before) best_k = k;
      };
      for (int quarter = 4; quarter >= 0; --quarter) try_k(regions * quarter / 4);
      for (int32_t step = regions / 8; step >= 1; step /= 2) {
        const int32_t around = best_k;
        try_k(around - step);
        try_k(around + step);
      }
    }
  }
  const OffloadSolution least = without_block_checkpointing ? min_memory_without_block_checkpointing(host_limit)
                                                            : min_memory_solution(host_limit, fixed);
  if (least.peak <= limit) consider(least.kept, least.offloaded);
  return best;
}

OffloadSolution OffloadSearch::min_memory_solution_of(const std::vector<KeptValues>& proposals,
                                                      int64_t host_limit) const {
  std::optional<OffloadSolution> best;
  const auto consider = [&](const KeptValues& kept, std::vector<char> offloaded) {
    OffloadSolution solution = evaluate(kept, std::move(offloaded), 0);
    if (!best || needs_less_memory(solution, *best)) best = std::move(solution);
  };
  for (const KeptValues& kept : proposals) {
    consider(kept, std::vector<char>(kept.size(), 0));
    consider(kept, offloadable(kept, host_limit));
  }
  return std::move(*best);
}

OffloadSolution OffloadSearch::min_memory_without_block_checkpointing(int64_t host_limit) const {
  if (const auto found = min_memory_without_block_checkpointing_.find(host_limit);
      found != min_memory_without_block_checkpointing_.end())
    return found->second;
  const double link = 1e12 / cost_.host_link;
  const std::vector<KeptValues> proposals{search_.min_memory_solution().kept, keep_all(search_.graphs().front()),
                                          search_.cheapest_with_offload(search_.region_count(), link, 0)};
  return min_memory_without_block_checkpointing_[host_limit] = min_memory_solution_of(proposals, host_limit);
}

OffloadSolution OffloadSearch::min_memory_solution(int64_t host_limit, const KeptValues* fixed) const {
  const std::pair key{host_limit, fixed ? *fixed : KeptValues{}};
  if (const auto found = min_memory_solutions_.find(key); found != min_memory_solutions_.end()) return found->second;
  OffloadSolution best = min_memory_solution_of({fixed ? *fixed : search_.checkpoint_blocks().kept}, host_limit);
  if (!fixed && !needs_less_memory(best, min_memory_without_block_checkpointing(host_limit)))
    best = min_memory_without_block_checkpointing(host_limit);
  return min_memory_solutions_[key] = std::move(best);
}

OffloadVariants::OffloadVariants(const Trace& trace, const RecomputeSearch& search, const PlanOptions& options)
    : trace_(trace),
      search_(search),
      options_(options),
      candidates_(trace, options.micro_batches, options.solver.offload),
      offload_search_(trace, search, options.cost, options.solver.offload) {}

const OffloadVariant& OffloadVariants::at(double fraction, int64_t host_room) const {
  const int64_t disk_room = options_.cost.disk_link > 0 ? options_.budget.disk : 0;
  OffloadAssignment assignment = candidates_.choose(fraction, host_room, disk_room);
  auto& made = made_[assignment.memory];
  if (made) return *made;
  made = std::make_unique<OffloadVariant>();
  made->assignment = std::move(assignment);
  PlanChoices choices;
  choices.memory = made->assignment.memory;
  made->trace = apply_choices(trace_, choices, search_.graphs(), options_.cost);
  for (const Buffer& buffer : made->trace.buffers)
    if (buffer.persistent && buffer.on_device()) made->persistent_bytes += placed_bytes(trace_, buffer.bytes);
  if (made->assignment.used_by_micro_batches) {
    made->own_recompute_search =
        std::make_unique<RecomputeSearch>(made->trace, options_.cost, options_.solver.recompute);
    made->own_offload_search = std::make_unique<OffloadSearch>(made->trace, *made->own_recompute_search, options_.cost,
                                                               options_.solver.offload);
    made->offload_search = made->own_offload_search.get();
  } else {
    made->offload_search = &offload_search_;  // buffers that only the update uses do not affect micro batches
  }
  return *made;
}

}  // namespace plimsoll
