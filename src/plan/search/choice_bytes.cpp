#include "plan/search/choice_bytes.h"

#include <algorithm>
#include <map>
#include <utility>

#include "plan/passes/segment_copies.h"
#include "plimsoll/error.h"

namespace plimsoll {

ChoiceBytes::ChoiceBytes(const Trace& trace, const TrainingGraph& graph)
    : trace_(trace), graph_(graph), begin_(graph.segment.begin) {
  const int32_t count = graph.segment.end - begin_;
  std::vector<int64_t> change(count + 1, 0), change_before(count + 1, 0);
  const std::vector<Lifetime> lifetimes = lifetimes_of(trace);
  for (size_t b = 0; b < trace.buffers.size(); ++b) {
    const Buffer& buffer = trace.buffers[b];
    if (!buffer.on_device() || buffer.persistent || graph.value_of[b] >= 0) continue;
    const int64_t bytes = placed_bytes(trace, trace.buffers[b].bytes);
    const int32_t birth = std::max(lifetimes[b].birth - begin_, 0);
    const int32_t death = std::min(lifetimes[b].death - begin_, count);
    if (birth >= death) continue;
    change[birth] += bytes;
    change[death] -= bytes;
    // In the gap before an op, a buffer is live if an earlier op made it; one from an earlier segment is live from the
    // start.
    const int32_t first_gap = lifetimes[b].birth < begin_ ? 0 : birth + 1;
    if (first_gap < death) {
      change_before[first_gap] += bytes;
      change_before[death] -= bytes;
    }
  }
  // An offloaded buffer is on the device during each residency interval, from its first op to its last.
  std::map<BufferId, int32_t> last_use;
  for (int32_t i = 0; i < count; ++i)
    for_each_view(trace.ops[begin_ + i], [&](const View& view, bool) {
      const Buffer& buffer = trace.buffers[view.buffer];
      if (buffer.on_device()) return;
      const int64_t bytes = placed_bytes(trace, buffer.bytes);
      const auto [at, first] = last_use.try_emplace(view.buffer, i);
      const bool stays = !first && i - at->second <= kMaxUseGap;
      if (!first && at->second == i) return;  // second operand of the same op
      const int32_t from = stays ? at->second + 1 : i;
      at->second = i;
      change[from] += bytes;
      change[i + 1] -= bytes;
      if (!stays) return;
      change_before[from] += bytes;
      change_before[i + 1] -= bytes;
    });
  int64_t live = 0, live_before = 0;
  for (int32_t i = 0; i < count; ++i) {
    live += change[i];
    live_before += change_before[i];
    fixed_.push_back(live + (trace.ops[begin_ + i].on_host ? 0 : trace.ops[begin_ + i].workspace_bytes));
    fixed_before_.push_back(live_before);
  }
}

ChoiceBytes::Timeline ChoiceBytes::timeline(const KeptValues& kept, const std::vector<char>& chosen) const {
  Timeline line;
  const RecomputeSequence sequence = recompute_sequence(graph_, kept);
  const int32_t count = graph_.segment.end - begin_;
  line.ticks.reserve(count + sequence.steps.size());
  std::vector<int32_t> tick_of(count);  // by op of the segment
  std::vector<int32_t> first_recompute_tick(graph_.values.size(), -1),
      last_reread_tick(graph_.values.size(), -1);  // by value: ticks
  size_t next = 0;
  for (int32_t i = 0; i < count; ++i) {
    for (; next < sequence.steps.size() && sequence.before[next] == begin_ + i; ++next) {
      const int32_t number = sequence.steps[next];
      const auto tick = static_cast<int32_t>(line.ticks.size());
      const ForwardOp& step = graph_.steps[number];
      bool counted = false;
      for (int32_t value : step.writes) {
        if (first_recompute_tick[value] < 0) first_recompute_tick[value] = tick;
        if (!kept[value]) last_reread_tick[value] = tick;  // a new buffer is live at least while it is made
        counted = counted || chosen[value];
      }
      for (int32_t value : step.reads) last_reread_tick[value] = tick;
      line.ticks.push_back({begin_ + i, number, counted ? trace_.ops[step.op].workspace_bytes : 0});
      line.cost += step.cost;
    }
    tick_of[i] = static_cast<int32_t>(line.ticks.size());
    line.ticks.push_back({begin_ + i, -1, 0});
  }

  std::vector<int64_t> change(line.ticks.size() + 1, 0);
  const auto live = [&](int32_t first, int32_t last, int64_t bytes) {
    if (first > last) return;
    change[first] += bytes;
    change[last + 1] -= bytes;
  };
  for (size_t v = 0; v < graph_.values.size(); ++v) {
    const ForwardValue& value = graph_.values[v];
    const int32_t made = tick_of[graph_.steps[value.makers.front()].op - begin_];
    int32_t last_step = value.makers.back();
    if (!value.readers.empty()) last_step = std::max(last_step, value.readers.back());
    const int32_t forward_end = tick_of[graph_.steps[last_step].op - begin_];
    const int32_t use_end = value.needed() ? tick_of[value.uses.back() - begin_] : forward_end;
    // The value is kept, and its maker is recomputed for another result: the second copy is dead immediately.
    const bool bystander = kept[v] && first_recompute_tick[v] >= 0;
    if (!chosen[v]) {
      if (last_reread_tick[v] > use_end && first_recompute_tick[v] < 0)
        live(use_end + 1, last_reread_tick[v], value.bytes);
      continue;
    }
    if (bystander) live(first_recompute_tick[v], first_recompute_tick[v], value.bytes);
    if (kept[v]) {
      live(made, std::max({use_end, forward_end, last_reread_tick[v]}), value.bytes);
    } else {
      live(made, forward_end, value.bytes);
      if (first_recompute_tick[v] >= 0)
        live(first_recompute_tick[v], std::max(last_reread_tick[v], value.needed() ? use_end : 0), value.bytes);
    }
  }
  int64_t sum = 0;
  for (size_t tick = 0; tick < line.ticks.size(); ++tick) {
    sum += change[tick];
    line.ticks[tick].bytes += sum;
  }
  return line;
}

std::pair<int64_t, int32_t> ChoiceBytes::peak_and_op(const KeptValues& kept) const {
  const Timeline line = timeline(kept, std::vector<char>(graph_.values.size(), 1));
  std::pair<int64_t, int32_t> peak{0, begin_};
  for (const Timeline::Tick& tick : line.ticks) {
    const int64_t bytes = tick.bytes + (tick.step < 0 ? fixed_at(tick.op) : fixed_before(tick.op));
    if (bytes > peak.first) peak = {bytes, tick.op};
  }
  return peak;
}

int64_t ChoiceBytes::peak(const KeptValues& kept) const {
  return peak_and_op(kept).first;
}

int32_t ChoiceBytes::peak_op(const KeptValues& kept) const {
  return peak_and_op(kept).second;
}

int64_t ChoiceBytes::cost(const KeptValues& kept) const {
  int64_t cost = 0;
  for (const int32_t step : recompute_sequence(graph_, kept).steps) cost += graph_.steps[step].cost;
  return cost;
}

// A recomputed op reads nothing that is written later, so the graph of dependencies has no cycles. A value is
// therefore needed exactly if the count of its readers is above 0.
RecomputeCost::RecomputeCost(const TrainingGraph& graph, KeptValues kept)
    : graph_(graph), kept_(std::move(kept)), wants_(graph.values.size(), 0), again_(graph.steps.size(), 0) {
  for (size_t v = 0; v < kept_.size(); ++v)
    if (!kept_[v] && graph.values[v].needed()) want(static_cast<int32_t>(v));
}

void RecomputeCost::want(int32_t value) {
  work_.assign(1, value);
  while (!work_.empty()) {
    const int32_t next = work_.back();
    work_.pop_back();
    if (wants_[next]++ > 0) continue;
    for (const int32_t maker : graph_.values[next].makers) {
      if (std::exchange(again_[maker], 1)) continue;
      total_ += graph_.steps[maker].cost;
      for (const int32_t read : graph_.steps[maker].reads)
        if (!kept_[read]) work_.push_back(read);
    }
  }
}

void RecomputeCost::release_makers(int32_t value) {
  work_.assign(1, value);
  while (!work_.empty()) {
    const int32_t next = work_.back();
    work_.pop_back();
    for (const int32_t maker : graph_.values[next].makers) {
      const ForwardOp& step = graph_.steps[maker];
      if (!again_[maker] || std::ranges::any_of(step.writes, [&](int32_t v) { return wanted(v); })) continue;
      again_[maker] = 0;
      total_ -= step.cost;
      dropped_.push_back(maker);
      for (const int32_t read : step.reads)
        if (!kept_[read] && --wants_[read] == 0) work_.push_back(read);
    }
  }
}

int64_t RecomputeCost::keep(int32_t value) {
  check(!kept_[value], "a value is kept once");
  const int64_t before = total_;
  last_ = value;
  dropped_.clear();
  kept_[value] = 1;
  if (wants_[value] > 0) release_makers(value);
  return before - total_;
}

void RecomputeCost::undo() {
  check(last_ >= 0, "there is a keep to take back");
  // Dropped ops read only values that were not kept. They read the value itself only if it was kept, so none did.
  for (const int32_t maker : dropped_) {
    again_[maker] = 1;
    total_ += graph_.steps[maker].cost;
    for (const int32_t read : graph_.steps[maker].reads)
      if (!kept_[read]) ++wants_[read];
  }
  kept_[last_] = 0;
  last_ = -1;
}

}  // namespace plimsoll
