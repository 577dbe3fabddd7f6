#include "plan/passes/training_graph.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "plimsoll/error.h"
#include "plimsoll/trace.h"

namespace plimsoll {
namespace {

// Largest time of one op that is counted. Sums must stay below 2^60 picoseconds, which are 13 days.
constexpr double kMaxSeconds = 20;

void insert_once(std::vector<int32_t>& list, int32_t value) {
  const auto at = std::lower_bound(list.begin(), list.end(), value);
  if (at == list.end() || *at != value) list.insert(at, value);
}

class GraphBuilder {
 public:
  GraphBuilder(const Trace& trace, const Segment& segment, const CostModel& cost)
      : trace_(trace), cost_(cost), last_write_(trace.buffers.size(), -1), first_write_(trace.buffers.size(), -1) {
    graph_.segment = segment;
    graph_.value_of.assign(trace.buffers.size(), -1);
  }

  TrainingGraph build() {
    const Segment& segment = graph_.segment;
    graph_.first_backward = segment.begin;
    while (graph_.first_backward < segment.end && trace_.ops[graph_.first_backward].phase == Phase::forward)
      ++graph_.first_backward;
    find_writes();
    find_values();
    for (int32_t i = segment.begin; i < graph_.first_backward; ++i) add_step(i);
    for (int32_t i = graph_.first_backward; i < segment.end; ++i) add_uses(i);
    for (ForwardOp& step : graph_.steps) {
      // If another op also writes one of two results, both would have to be recomputed together, with all their makers.
      if (step.writes.size() > 1)
        for (int32_t value : step.writes) step.repeatable = step.repeatable && graph_.values[value].makers.size() == 1;
    }
    for (const ForwardOp& step : graph_.steps)
      if (!step.repeatable)
        for (int32_t value : step.writes) graph_.values[value].repeatable = false;
    for (size_t v = 0; v < graph_.values.size(); ++v)
      if (graph_.values[v].needed()) graph_.by_use.push_back(static_cast<int32_t>(v));
    std::ranges::stable_sort(graph_.by_use, {}, [&](int32_t v) { return graph_.values[v].uses.front(); });
    return std::move(graph_);
  }

 private:
  void find_writes() {
    for (int32_t i = graph_.segment.begin; i < graph_.segment.end; ++i) {
      for_each_view(trace_.ops[i], [&](const View& view, bool written) {
        // An update among backward ops runs after all readers of the parameter (sink_updates ensures that).
        if (!written || trace_.ops[i].phase == Phase::update) return;
        last_write_[view.buffer] = i;
        if (first_write_[view.buffer] < 0) first_write_[view.buffer] = i;
      });
    }
  }

  void find_values() {
    // Buffers that another segment uses too (gradients) do not belong to this segment.
    std::vector<char> used_outside(trace_.buffers.size(), 0);
    for (int32_t i = 0; i < static_cast<int32_t>(trace_.ops.size()); ++i)
      if (i < graph_.segment.begin || i >= graph_.segment.end)
        for_each_view(trace_.ops[i], [&](const View& view, bool) { used_outside[view.buffer] = 1; });
    for (int32_t i = graph_.segment.begin; i < graph_.first_backward; ++i) {
      for_each_view(trace_.ops[i], [&](const View& view, bool written) {
        const BufferId buffer = view.buffer;
        const Buffer& description = trace_.buffers[buffer];
        if (!written || graph_.value_of[buffer] >= 0 || first_write_[buffer] != i) return;
        if (description.persistent || description.output || description.bytes == 0 || used_outside[buffer]) return;
        if (last_write_[buffer] >= graph_.first_backward) return;
        graph_.value_of[buffer] = static_cast<int32_t>(graph_.values.size());
        ForwardValue& value = graph_.values.emplace_back();
        value.buffer = buffer;
        value.bytes = placed_bytes(trace_, description.bytes);
      });
    }
  }

  void add_step(int32_t index) {
    const Op& op = trace_.ops[index];
    const auto number = static_cast<int32_t>(graph_.steps.size());
    ForwardOp step;
    step.op = index;
    // A larger time would only matter for the order of ops, and the sum of thousands must stay in range.
    const double seconds = std::min(std::max(seconds_of(cost_, op), 0.0), kMaxSeconds);
    step.cost = std::llround(seconds * 1e12);
    for_each_view(op, [&](const View& view, bool written) {
      if (!written) return;
      const int32_t value = graph_.value_of[view.buffer];
      if (value < 0)
        step.repeatable = step.repeatable && trace_.buffers[view.buffer].bytes == 0;
      else
        insert_once(step.writes, value);
    });
    for_each_view(op, [&](const View& view, bool written) {
      const int32_t value = graph_.value_of[view.buffer];
      if (written || (value >= 0 && std::binary_search(step.writes.begin(), step.writes.end(), value))) return;
      if (last_write_[view.buffer] > index) step.repeatable = false;
      if (value >= 0) insert_once(step.reads, value);
    });
    for (int32_t value : step.writes) graph_.values[value].makers.push_back(number);
    for (int32_t value : step.reads) graph_.values[value].readers.push_back(number);
    graph_.steps.push_back(std::move(step));
  }

  void add_uses(int32_t index) {
    for_each_view(trace_.ops[index], [&](const View& view, bool) {
      if (const int32_t value = graph_.value_of[view.buffer]; value >= 0) insert_once(graph_.values[value].uses, index);
    });
  }

  const Trace& trace_;
  const CostModel& cost_;
  TrainingGraph graph_;
  std::vector<int32_t> last_write_, first_write_;  // by buffer, within the segment
};

}  // namespace

TrainingGraph training_graph(const Trace& trace, const Segment& segment, const CostModel& cost) {
  return GraphBuilder(trace, segment, cost).build();
}

bool same_shape(const TrainingGraph& a, const TrainingGraph& b) {
  if (a.steps.size() != b.steps.size() || a.values.size() != b.values.size()) return false;
  for (size_t i = 0; i < a.steps.size(); ++i)
    if (a.steps[i].reads != b.steps[i].reads || a.steps[i].writes != b.steps[i].writes ||
        a.steps[i].repeatable != b.steps[i].repeatable)
      return false;
  for (size_t v = 0; v < a.values.size(); ++v)
    if (a.values[v].needed() != b.values[v].needed()) return false;
  return true;
}

KeptValues keep_all(const TrainingGraph& graph) {
  KeptValues kept(graph.values.size());
  for (size_t v = 0; v < kept.size(); ++v) kept[v] = graph.values[v].needed();
  return kept;
}

void RecomputeSequence::add(const TrainingGraph& graph, int32_t op, int32_t needed, std::vector<char>& available,
                            std::vector<char>& again, std::vector<int32_t>& made) {
  if (available[needed]) return;
  if (!before.empty() && before.back() != op) finish();
  const auto set_available = [&](int32_t value) {
    available[value] = 1;
    made.push_back(value);
  };
  work_.assign(1, needed);
  while (!work_.empty()) {
    const int32_t value = work_.back();
    work_.pop_back();
    if (available[value]) continue;
    set_available(value);
    check(graph.values[value].repeatable, "a value that cannot be rebuilt is not kept");
    for (const int32_t maker : graph.values[value].makers) {
      if (std::exchange(again[maker], 1)) continue;
      steps.push_back(maker);
      before.push_back(op);
      for (const int32_t read : graph.steps[maker].reads)
        if (!available[read]) work_.push_back(read);
      // The other outputs of the kernel are recomputed with it.
      for (const int32_t written : graph.steps[maker].writes) set_available(written);
    }
  }
}

void RecomputeSequence::finish() {
  std::sort(steps.begin() + begin_, steps.end());
  begin_ = static_cast<std::ptrdiff_t>(steps.size());
}

RecomputeSequence recompute_sequence(const TrainingGraph& graph, const KeptValues& kept) {
  RecomputeSequence sequence;
  std::vector<char> there(kept.begin(), kept.end()), again(graph.steps.size(), 0);
  std::vector<int32_t> made;
  for (const int32_t needed : graph.by_use)
    sequence.add(graph, graph.values[needed].uses.front(), needed, there, again, made);
  sequence.finish();
  return sequence;
}

std::vector<RecomputePoint> recompute_points(const TrainingGraph& graph, const KeptValues& kept) {
  const RecomputeSequence sequence = recompute_sequence(graph, kept);
  std::vector<RecomputePoint> points;
  for (size_t i = 0; i < sequence.steps.size(); ++i) {
    if (points.empty() || points.back().before != sequence.before[i]) points.push_back({sequence.before[i], {}});
    points.back().steps.push_back(sequence.steps[i]);
  }
  return points;
}

}  // namespace plimsoll
