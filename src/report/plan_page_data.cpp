#include "report/plan_page_data.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>
#include <unordered_map>

#include "base/text.h"
#include "plimsoll/error.h"
#include "plimsoll/trace.h"

namespace plimsoll {
namespace {

class Strings {
 public:
  size_t id_of(const std::string& text) {
    const auto [entry, added] = ids_.try_emplace(text, list_.size());
    if (added) list_.push_back(page_name(text));
    return entry->second;
  }
  nlohmann::json take() { return std::move(list_); }

 private:
  std::unordered_map<std::string, size_t> ids_;
  std::vector<std::string> list_;
};

class Deltas {
 public:
  void add(int64_t value) {
    list_.push_back(value - last_);
    last_ = value;
  }
  nlohmann::json take() { return std::move(list_); }

 private:
  int64_t last_ = 0;
  std::vector<int64_t> list_;
};

using Areas = std::array<int64_t, kPageAreas>;

int64_t total(const Areas& areas) {
  return std::accumulate(areas.begin(), areas.end(), int64_t{0});
}

// Visits the live bytes of each op by area, op by op, so that 7 numbers for each of very many ops need not be stored.
template <typename Visit>
void for_each_op_memory(const Plan& plan, Visit&& visit) {
  const Trace& trace = plan.trace;
  const std::vector<Lifetime> lifetimes = lifetimes_of(trace);
  std::vector<std::vector<size_t>> born(trace.ops.size() + 1), dead(trace.ops.size() + 1);
  for (size_t b = 0; b < trace.buffers.size(); ++b) {
    if (!trace.buffers[b].on_device() || plan.offsets[b] < 0 || lifetimes[b].birth >= lifetimes[b].death) continue;
    born[lifetimes[b].birth].push_back(b);
    dead[lifetimes[b].death].push_back(b);
  }
  Areas live{};
  live[kPageAreas - 1] = plan.breakdown.context;
  for (size_t i = 0; i < trace.ops.size(); ++i) {
    for (size_t b : dead[i]) live[page_area(trace.buffers[b].role)] -= placed_bytes(trace, trace.buffers[b].bytes);
    for (size_t b : born[i]) live[page_area(trace.buffers[b].role)] += placed_bytes(trace, trace.buffers[b].bytes);
    Areas here = live;
    if (!trace.ops[i].on_host) here[page_area(Role::workspace)] += placed_bytes(trace, trace.ops[i].workspace_bytes);
    visit(static_cast<int32_t>(i), here);
  }
}

struct Point {
  int32_t op = 0;
  Areas areas{};
};

std::vector<Point> timeline(const Plan& plan, size_t max_points) {
  const size_t ops = plan.trace.ops.size(), count = std::min(ops, max_points);
  std::vector<Point> points;
  points.reserve(count);
  for_each_op_memory(plan, [&](int32_t op, const Areas& areas) {
    const size_t run = static_cast<size_t>(op) * count / ops;
    const bool opens = points.size() <= run;
    if (opens)
      points.push_back({op, areas});
    else if (op == plan.peak_op || (points.back().op != plan.peak_op && total(areas) > total(points.back().areas)))
      points.back() = {op, areas};
  });
  return points;
}

nlohmann::json points_json(const std::vector<Point>& points) {
  Deltas ops;
  std::array<Deltas, kPageAreas> areas;
  for (const Point& point : points) {
    ops.add(point.op);
    for (int a = 0; a < kPageAreas; ++a) areas[a].add((point.areas[a] + kArenaAlignment - 1) / kArenaAlignment);
  }
  nlohmann::json by_area = nlohmann::json::array();
  for (Deltas& area : areas) by_area.push_back(area.take());
  return {{"op", ops.take()}, {"areas", std::move(by_area)}};
}

nlohmann::json buffers_json(const std::vector<PageBuffer>& buffers, Strings& strings) {
  std::vector<int64_t> label, role, bytes, offset, birth, length, flags;
  for (const PageBuffer& buffer : buffers) {
    label.push_back(static_cast<int64_t>(strings.id_of(buffer.label)));
    role.push_back(static_cast<int64_t>(buffer.role));
    bytes.push_back(buffer.bytes);
    offset.push_back(buffer.offset / kArenaAlignment);
    birth.push_back(buffer.birth);
    length.push_back(buffer.death - buffer.birth);
    flags.push_back((buffer.persistent ? 1 : 0) + (buffer.output ? 2 : 0));
  }
  return {{"label", label}, {"role", role},     {"bytes", bytes}, {"offset", offset},
          {"birth", birth}, {"length", length}, {"flags", flags}};
}

nlohmann::json exchanges_json(const std::vector<PageExchange>& exchanges) {
  Deltas op;
  std::vector<int64_t> length, bytes;
  for (const PageExchange& exchange : exchanges) {
    op.add(exchange.begin);
    length.push_back(exchange.end - exchange.begin);
    bytes.push_back(exchange.bytes);
  }
  return {{"op", op.take()}, {"length", length}, {"bytes", bytes}};
}

// Returns the nanoseconds from the start of the trace to the start of each op, and to its end. Invalid seconds (not a
// number, negative, longer than a year) count as 0.
std::vector<int64_t> starts_of(const std::vector<double>& op_seconds) {
  constexpr double kYear = 3e7;
  std::vector<int64_t> starts;
  double sum = 0;
  for (double seconds : op_seconds) {
    starts.push_back(std::llround(sum * 1e9));
    if (seconds > 0 && sum + seconds < kYear) sum += seconds;
  }
  starts.push_back(std::llround(sum * 1e9));
  return starts;
}

nlohmann::json ops_json(const PlanPage& page, std::vector<int32_t> named, Strings& strings) {
  const Trace& trace = page.plan->trace;
  const auto end = static_cast<int32_t>(trace.ops.size());
  std::sort(named.begin(), named.end());
  named.erase(std::unique(named.begin(), named.end()), named.end());
  const std::vector<int64_t> starts = page.op_seconds.empty() ? std::vector<int64_t>{} : starts_of(page.op_seconds);
  Deltas index, start;
  std::vector<size_t> name, module, phase;
  for (int32_t i : named) {
    index.add(i);
    if (!starts.empty()) start.add(starts[i]);
    if (i == end) continue;  // the end of the trace is a time without an op
    const Op& op = trace.ops[i];
    name.push_back(strings.id_of(op.name));
    const bool known = op.module >= 0 && static_cast<size_t>(op.module) < trace.modules.size();
    module.push_back(strings.id_of(known ? trace.modules[op.module] : ""));
    phase.push_back(static_cast<size_t>(op.phase) + (op.recomputed ? 8 : 0));
  }
  nlohmann::json json = {{"total", end}, {"index", index.take()}, {"name", name}, {"module", module}, {"phase", phase}};
  if (!starts.empty()) json["start"] = start.take();
  return json;
}

}  // namespace

std::string page_name(const std::string& name) {
  constexpr size_t kMaxTextLength = 160;
  const std::string_view cut = fit_width(name, kMaxTextLength);
  return without_controls(cut.size() < name.size() ? std::string(cut) + "…" : name);
}

int page_area(Role role) {
  switch (role) {
    case Role::parameter:
      return 0;
    case Role::optimizer_state:
      return 1;
    case Role::gradient:
      return 2;
    case Role::activation:
    case Role::temporary:
      return 3;
    case Role::input:
      return 4;
    case Role::workspace:
      return 5;
  }
  throw InternalError("unknown role");
}

PageBuffers page_buffers(const Plan& plan, size_t residents, size_t max_drawn) {
  const Trace& trace = plan.trace;
  const std::vector<Lifetime> lifetimes = lifetimes_of(trace);
  std::vector<PageBuffer> all;
  for (size_t b = 0; b < trace.buffers.size(); ++b) {
    const Buffer& buffer = trace.buffers[b];
    if (!buffer.on_device() || plan.offsets[b] < 0 || lifetimes[b].birth >= lifetimes[b].death || buffer.bytes == 0)
      continue;
    all.push_back({buffer.label, buffer.role, buffer.bytes, plan.offsets[b], lifetimes[b].birth, lifetimes[b].death,
                   buffer.persistent, buffer.output});
  }
  for (size_t i = 0; i < trace.ops.size(); ++i) {
    if (plan.workspace_offsets[i] < 0 || trace.ops[i].on_host) continue;
    const auto at = static_cast<int32_t>(i);
    all.push_back({"scratch of " + trace.ops[i].name, Role::workspace, trace.ops[i].workspace_bytes,
                   plan.workspace_offsets[i], at, at + 1, false, false});
  }
  std::stable_sort(all.begin(), all.end(), [](const PageBuffer& a, const PageBuffer& b) { return a.bytes > b.bytes; });

  PageBuffers result;
  size_t named = 0;
  for (PageBuffer& buffer : all) {
    const bool at_peak = buffer.birth <= plan.peak_op && plan.peak_op < buffer.death;
    const bool resident = at_peak && named < residents;
    if (resident) {
      ++named;
    } else if (at_peak) {
      ++result.residents_left;
      result.residents_left_bytes += placed_bytes(trace, buffer.bytes);
    }
    if (!resident && result.drawn.size() >= max_drawn) {
      ++result.left_out;
      result.left_out_largest = std::max(result.left_out_largest, buffer.bytes);
      continue;
    }
    if (resident) result.residents.push_back(result.drawn.size());
    result.drawn.push_back(std::move(buffer));
  }
  return result;
}

std::vector<PageExchange> page_exchanges(const Trace& trace, size_t max_drawn) {
  std::vector<PageExchange> all;
  std::unordered_map<BufferId, size_t> started;  // exchanges that overlap with other ops, by the buffer written
  for (size_t i = 0; i < trace.ops.size(); ++i) {
    const Op& op = trace.ops[i];
    const auto at = static_cast<int32_t>(i);
    if (op.exchange == CopyStage::wait) {
      if (op.arguments.empty() || op.arguments[0].views.empty()) continue;
      const auto found = started.find(op.arguments[0].views[0].buffer);
      if (found == started.end()) continue;
      all[found->second].end = at + 1;
      started.erase(found);
      continue;
    }
    if (op.link_bytes == 0) continue;
    if (op.exchange == CopyStage::start)
      for_each_view(op, [&](const View& view, bool written) {
        if (written) started[view.buffer] = all.size();
      });
    all.push_back({at, at + 1, op.link_bytes});
  }
  if (all.size() <= max_drawn) return all;
  std::ranges::stable_sort(all, std::greater(), &PageExchange::bytes);
  all.resize(max_drawn);
  std::ranges::sort(all, {}, &PageExchange::begin);
  return all;
}

nlohmann::json page_data(const PlanPage& page, const PageBuffers& buffers, size_t max_points) {
  const Plan& plan = *page.plan;
  const std::vector<Point> points = timeline(plan, max_points);
  const auto end = static_cast<int32_t>(plan.trace.ops.size());
  std::vector<int32_t> named = {0, end};
  for (const Point& point : points) named.push_back(point.op);
  for (const PageBuffer& buffer : buffers.drawn) {
    named.push_back(buffer.birth);
    named.push_back(buffer.death - 1);
    named.push_back(buffer.death);
  }
  const std::vector<PageExchange> exchanges = page_exchanges(plan.trace);
  for (const PageExchange& exchange : exchanges) {
    named.push_back(exchange.begin);
    named.push_back(exchange.begin + 1);
    named.push_back(exchange.end);
  }
  nlohmann::json segments = nlohmann::json::array();
  for (const Segment& segment : plan.trace.segments) {
    segments.push_back({name_of(segment.kind), segment.begin, segment.end});
    named.push_back(segment.begin);
    named.push_back(segment.end);
  }
  Strings strings;
  nlohmann::json frontier = nlohmann::json::array();
  for (const FrontierPoint& point : page.frontier)
    frontier.push_back({point.budget_bytes, point.peak_bytes,
                        std::isfinite(point.step_seconds) ? point.step_seconds : 0, page_name(point.choices),
                        point.fits});
  nlohmann::json json = {{"unit", kArenaAlignment},
                         {"budget", plan.budget.device_bytes()},
                         {"peak", plan.peak_bytes},
                         {"peakOp", plan.peak_op},
                         {"arena", plan.arena_bytes},
                         {"context", plan.breakdown.context},
                         {"segments", std::move(segments)},
                         {"ops", ops_json(page, std::move(named), strings)},
                         {"points", points_json(points)},
                         {"exchanges", exchanges_json(exchanges)},
                         {"buffers", buffers_json(buffers.drawn, strings)},
                         {"frontier", std::move(frontier)}};
  json["strings"] = strings.take();
  return json;
}

}  // namespace plimsoll
