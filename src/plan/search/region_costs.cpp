#include "plan/search/recompute_regions.h"

#include <algorithm>

#include "plimsoll/error.h"

namespace plimsoll {
namespace {

class PartitionEvaluator {
 public:
  PartitionEvaluator(const std::vector<TrainingGraph>& graphs, const std::vector<ChoiceBytes>& bytes,
                     RegionPartition& partition)
      : graphs_(graphs), bytes_(bytes), partition_(partition) {
    for (size_t g = 0; g < graphs.size(); ++g) find_base(g);
    const size_t values = graphs.front().values.size();
    needed_ = available_ = keep_all(graphs.front());
    is_recomputed_.assign(graphs.front().steps.size(), 0);
    status_.assign(values, kOtherRegion);
    first_recompute_tick_.assign(values, -1);
    last_reread_tick_.assign(values, -1);
  }

  void run() {
    partition_.evaluated.resize(partition_.regions.size());
    for (size_t r = 0; r < partition_.regions.size(); ++r)
      for (const RegionChoice& choice : partition_.choices[r]) partition_.evaluated[r].push_back(evaluate(r, choice));
  }

 private:
  // Computes the live bytes of everything except the regions' own values: during each op of the segment, and in the gap
  // before it, in which ops may be recomputed. Also finds the region of each op. Backward visits the regions in
  // reverse order: an op of backward belongs to the last region whose values the op itself or a later op uses.
  void find_base(size_t g) {
    const TrainingGraph& graph = graphs_[g];
    std::vector<char> shared(graph.values.size(), 1);
    for (const Region& region : partition_.regions)
      for (int32_t v : region.values) shared[v] = 0;
    const auto line = bytes_[g].timeline(keep_all(graph), shared);
    Base& base = bases_.emplace_back();
    for (const auto& tick : line.ticks) {
      base.op_bytes.push_back(tick.bytes + bytes_[g].fixed_at(tick.op));
      // tick.bytes already includes the shared values that the op itself makes, so this is an upper bound for the gap
      // before it.
      base.gap_bytes.push_back(tick.bytes + bytes_[g].fixed_before(tick.op));
    }
    const int32_t begin = graph.segment.begin;
    base.region.assign(graph.segment.end - begin, 0);
    for (size_t r = 0; r < partition_.regions.size(); ++r)
      for (int32_t s = partition_.regions[r].begin; s < partition_.regions[r].end; ++s)
        base.region[graph.steps[s].op - begin] = static_cast<int32_t>(r);
    int32_t active = -1;
    std::vector<int32_t> last_use(partition_.regions.size(), -1);
    for (size_t r = 0; r < partition_.regions.size(); ++r)
      for (int32_t v : partition_.regions[r].values)
        if (graph.values[v].needed()) last_use[r] = std::max(last_use[r], graph.values[v].uses.back());
    for (int32_t op = graph.segment.end; op-- > graph.first_backward;) {
      for (size_t r = 0; r < last_use.size(); ++r)
        if (last_use[r] >= op) active = std::max(active, static_cast<int32_t>(r));
      base.region[op - begin] = active;
    }
    base.ops.resize(partition_.regions.size());
    for (size_t at = 0; at < base.region.size(); ++at)
      if (base.region[at] >= 0) base.ops[base.region[at]].push_back(static_cast<int32_t>(at));
  }

  // Returns the bytes and time of one choice, counted as in a ChoiceBytes::timeline() of the segment. A timeline
  // visits every op of the segment; this function examines only the ops and values that the choice changes.
  RegionPartition::EvaluatedChoice evaluate(size_t r, const RegionChoice& choice) {
    RegionPartition::EvaluatedChoice result{&choice};
    for (size_t g = 0; g < graphs_.size(); ++g) {
      const TrainingGraph& graph = graphs_[g];
      const RecomputeSequence recomputed = recomputed_by(graph, partition_.regions[r], choice);
      result.peak = std::max(result.peak, peak_of(g, r, choice, recomputed));
      if (g == 0)  // the cost of a RecomputeSolution is that of the first graph as well
        for (const int32_t step : recomputed.steps) result.cost += graph.steps[step].cost;
      int64_t held = 0;
      for (int32_t v : choice.kept) held += graph.values[v].bytes;
      for (int32_t v : choice.foreign) held += graph.values[v].bytes;
      result.held = std::max(result.held, held);
    }
    return result;
  }

  // Returns the recomputed ops in the order of recompute_points(), if the other regions keep all their values.
  RecomputeSequence recomputed_by(const TrainingGraph& graph, const Region& region, const RegionChoice& choice) {
    for (int32_t v : region.values) available_[v] = 0;
    for (int32_t v : choice.kept) available_[v] = 1;
    for (int32_t v : choice.foreign) available_[v] = 1;
    changed_ = choice.foreign;
    std::vector<std::pair<int32_t, int32_t>> uses;  // (op, value)
    for (int32_t v : region.values)
      if (!available_[v] && graph.values[v].needed()) uses.emplace_back(graph.values[v].uses.front(), v);
    std::sort(uses.begin(), uses.end());
    RecomputeSequence recomputed;
    for (const auto& [op, needed] : uses) recomputed.add(graph, op, needed, available_, is_recomputed_, changed_);
    recomputed.finish();
    for (int32_t step : recomputed.steps) is_recomputed_[step] = 0;
    for (int32_t v : changed_) available_[v] = needed_[v];
    for (int32_t v : region.values) available_[v] = needed_[v];
    return recomputed;
  }

  // Returns the largest number of live bytes while ops of the region run. Ticks number the ops of the segment and the
  // recomputed ops between them, in the order in which they run.
  int64_t peak_of(size_t g, size_t r, const RegionChoice& choice, const RecomputeSequence& recomputed) {
    const TrainingGraph& graph = graphs_[g];
    const Base& base = bases_[g];
    const int32_t begin = graph.segment.begin;
    const auto tick_of = [&](int32_t op) {
      const auto before =
          std::upper_bound(recomputed.before.begin(), recomputed.before.end(), op) - recomputed.before.begin();
      return op - begin + static_cast<int32_t>(before);
    };
    const auto tick_of_step = [&](size_t i) { return recomputed.before[i] - begin + static_cast<int32_t>(i); };

    for (int32_t v : partition_.regions[r].values) status_[v] = kDropped;
    for (int32_t v : choice.kept) status_[v] = kKept;
    const auto is_kept = [&](int32_t v) {
      if (status_[v] != kOtherRegion) return status_[v] == kKept;
      return needed_[v] != 0 || std::ranges::find(choice.foreign, v) != choice.foreign.end();
    };
    std::vector<int32_t> touched;
    for (size_t i = 0; i < recomputed.steps.size(); ++i) {
      const ForwardOp& step = graph.steps[recomputed.steps[i]];
      const int32_t tick = tick_of_step(i);
      for (int32_t v : step.writes) {
        touched.push_back(v);
        if (first_recompute_tick_[v] < 0) first_recompute_tick_[v] = tick;
        if (!is_kept(v)) last_reread_tick_[v] = tick;  // a recomputed value is live at least while its op runs
      }
      for (int32_t v : step.reads) {
        touched.push_back(v);
        last_reread_tick_[v] = tick;
      }
    }

    events_.clear();
    const auto live = [&](int32_t first, int32_t last, int64_t bytes) {
      if (first > last) return;
      events_.emplace_back(first, bytes);
      events_.emplace_back(last + 1, -bytes);
    };
    const auto ends_of = [&](const ForwardValue& value) {
      int32_t last_step = value.makers.back();
      if (!value.readers.empty()) last_step = std::max(last_step, value.readers.back());
      const int32_t forward_end = tick_of(graph.steps[last_step].op);
      return std::pair(forward_end, value.needed() ? tick_of(value.uses.back()) : forward_end);
    };
    for (int32_t v : touched) {
      if (status_[v] != kOtherRegion) continue;
      const auto [forward_end, use_end] = ends_of(graph.values[v]);
      if (last_reread_tick_[v] > use_end && first_recompute_tick_[v] < 0)
        live(use_end + 1, last_reread_tick_[v], graph.values[v].bytes);
      last_reread_tick_[v] = -1;  // counts each value once
    }
    for (int32_t v : partition_.regions[r].values) {
      const ForwardValue& value = graph.values[v];
      const int32_t made = tick_of(graph.steps[value.makers.front()].op);
      const auto [forward_end, use_end] = ends_of(value);
      if (status_[v] == kKept) {
        // If its maker is recomputed for another result, the second copy of the value is dead immediately.
        if (first_recompute_tick_[v] >= 0) live(first_recompute_tick_[v], first_recompute_tick_[v], value.bytes);
        live(made, std::max({use_end, forward_end, last_reread_tick_[v]}), value.bytes);
      } else {
        live(made, forward_end, value.bytes);
        if (first_recompute_tick_[v] >= 0)
          live(first_recompute_tick_[v], std::max(last_reread_tick_[v], value.needed() ? use_end : 0), value.bytes);
      }
    }
    std::sort(events_.begin(), events_.end());

    int64_t peak = 0, sum = 0;
    size_t next = 0;
    const auto sum_at = [&](int32_t tick) {
      for (; next < events_.size() && events_[next].first <= tick; ++next) sum += events_[next].second;
      return sum;
    };
    size_t step = 0;
    const auto run_steps_before = [&](int32_t op) {
      for (; step < recomputed.steps.size() && recomputed.before[step] <= op; ++step) {
        const int32_t at = recomputed.before[step] - begin;
        if (base.region[at] != static_cast<int32_t>(r)) continue;
        const ForwardOp& again = graph.steps[recomputed.steps[step]];
        // Scratch counts for the ops that write values of this region, as in ChoiceBytes::timeline().
        const bool counted = std::ranges::any_of(again.writes, [&](int32_t v) { return status_[v] != kOtherRegion; });
        const int64_t scratch = counted ? bytes_[g].scratch_of(again.op) : 0;
        peak = std::max(peak, sum_at(tick_of_step(step)) + scratch + base.gap_bytes[at]);
      }
    };
    for (const int32_t at : base.ops[r]) {
      run_steps_before(at + begin);
      peak = std::max(peak, sum_at(tick_of(at + begin)) + base.op_bytes[at]);
    }

    for (int32_t v : touched) first_recompute_tick_[v] = last_reread_tick_[v] = -1;
    for (int32_t v : partition_.regions[r].values) status_[v] = kOtherRegion;
    return peak;
  }

  struct Base {
    std::vector<int64_t> op_bytes;          // by op of the segment: live bytes while it runs
    std::vector<int64_t> gap_bytes;         // by op of the segment: live bytes while ops are recomputed before it
    std::vector<int32_t> region;            // by op; -1: in no region
    std::vector<std::vector<int32_t>> ops;  // by region: its ops of the segment, ascending
  };
  const std::vector<TrainingGraph>& graphs_;
  const std::vector<ChoiceBytes>& bytes_;
  RegionPartition& partition_;
  std::vector<Base> bases_;

  // Working data for one choice; reset between choices. All graphs have the same values and forward ops.
  enum Status : char { kOtherRegion, kDropped, kKept };
  // By value. needed_: 1 if a backward op needs it, so that keep-all keeps it. available_: 1 if it is kept or already
  // recomputed.
  KeptValues needed_, available_;
  std::vector<char> is_recomputed_;  // by forward op: it is recomputed
  std::vector<int32_t> changed_;     // values whose available_ was changed
  std::vector<char> status_;  // by value: of another region or of none (kOtherRegion), or dropped or kept by the choice
  // By value; -1: none. first_recompute_tick_: tick of its first recomputation. last_reread_tick_: tick of the last
  // recomputed op that reads the value or, if the value is not kept, reads or writes it.
  std::vector<int32_t> first_recompute_tick_, last_reread_tick_;
  std::vector<std::pair<int32_t, int64_t>> events_;  // (tick, change of live bytes)
};

}  // namespace

void evaluate_regions(const std::vector<TrainingGraph>& graphs, const std::vector<ChoiceBytes>& bytes,
                      RegionPartition& partition) {
  PartitionEvaluator(graphs, bytes, partition).run();
}

}  // namespace plimsoll
