#include "plimsoll/plan_job.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <tuple>
#include <unordered_map>

#include "base/text.h"
#include "plimsoll/error.h"
#include "plimsoll/machine.h"
#include "run/op_times.h"
#include "run/training_parts.h"
#include "trace/trace_queries.h"

namespace plimsoll {
namespace {

// Returns "float32[64, 32]"; with strides if the view is not dense: "float32[64, 32] by [1, 64]".
std::string text_of(const View& view) {
  std::string text = fmt::format("{}[{}]", name_of(view.dtype), fmt::join(view.sizes, ", "));
  int64_t dense = 1;
  bool is_dense = true;
  for (size_t i = view.sizes.size(); i-- > 0;) {
    is_dense &= view.sizes[i] == 1 || view.strides[i] == dense;
    dense *= view.sizes[i];
  }
  if (!is_dense) text += fmt::format(" by [{}]", fmt::join(view.strides, ", "));
  return text;
}

std::string operands_of(const Op& op) {
  std::vector<std::string> read, written;
  for_each_view(op, [&](const View& view, bool writes) { (writes ? written : read).push_back(text_of(view)); });
  return fmt::format("{} -> {}", fmt::join(read, ", "), fmt::join(written, ", "));
}

// Merges dotted paths part by part, with "*" for parts that differ: "layers.0.mlp" and "layers.1.mlp" become
// "layers.*.mlp". Returns "" if they differ in length, because they have no common path.
std::string common_path(const std::string& a, const std::string& b) {
  if (a == b) return a;
  if (a.empty() || b.empty()) return "";
  std::string common;
  size_t i = 0, j = 0;
  while (true) {
    const size_t end_a = std::min(a.find('.', i), a.size()), end_b = std::min(b.find('.', j), b.size());
    const std::string part = a.substr(i, end_a - i);
    common += part == b.substr(j, end_b - j) ? part : "*";
    if ((end_a == a.size()) != (end_b == b.size())) return "";
    if (end_a == a.size()) return common == "*" ? "" : common;
    common += '.';
    i = end_a + 1;
    j = end_b + 1;
  }
}

// Returns the seconds by the rates alone.
double floor_of(const CostModel& rates, const Op& op) {
  if (op.copy != CopyStage::none) return 0;  // does not use the device's arithmetic
  return seconds_of(rates, op);
}

class Groups {
 public:
  Groups(const PlannedJob& planned) : trace_(planned.plan.trace), cost_(planned.settings.cost), rates_(cost_) {
    rates_.measured_seconds = {};
    rates_.overhead_seconds = 0;
  }

  void add(const Segment& segment, int64_t runs) {
    double sum = 0;
    for (int32_t i = segment.begin; i < segment.end; ++i) {
      const Op& op = trace_.ops[i];
      sum += add(op, runs);
    }
    result_.wait_seconds +=
        std::max(0.0, segment_seconds(cost_, trace_, segment.kind) - sum) * static_cast<double>(runs);
  }

  HotOps finish() {
    for (auto& [key, group] : groups_) result_.ops.push_back(std::move(group));
    // Sorted by name too, because the order must not depend on the hashes of keys.
    std::ranges::sort(result_.ops, [](const HotOp& a, const HotOp& b) {
      return std::tie(b.seconds, a.name, a.operands) < std::tie(a.seconds, b.name, b.operands);
    });
    return std::move(result_);
  }

 private:
  // Adds an op; returns the seconds of one run.
  double add(const Op& op, int64_t runs) {
    const double seconds = seconds_of(cost_, op);
    const double floor = floor_of(rates_, op);
    const bool timed = op.call && cost_.measured_seconds && !(op.on_host && cost_.copies_overlap) &&
                       cost_.measured_seconds(op).has_value();
    const std::string operands = operands_of(op);
    HotOp& group = groups_[op.name + "|" + operands];
    if (group.runs == 0) {
      group.name = op.name;
      group.operands = operands;
      group.modules = trace_.modules[op.module];
      group.timed = true;
    }
    group.timed = group.timed && timed;
    group.modules = common_path(group.modules, trace_.modules[op.module]);
    const auto times = static_cast<double>(runs);
    group.runs += runs;
    group.seconds += seconds * times;
    group.floor_seconds += floor * times;
    result_.seconds += seconds * times;
    result_.floor_seconds += floor * times;
    if (timed) result_.timed_seconds += seconds * times;
    return seconds;
  }

  const Trace& trace_;
  const CostModel& cost_;
  CostModel rates_;
  std::unordered_map<std::string, HotOp> groups_;  // by operator and operands
  HotOps result_;
};

}  // namespace

HotOps hot_ops(const PlannedJob& planned, const std::string& segment) {
  const Trace& trace = planned.plan.trace;
  Groups groups(planned);
  if (segment.empty()) {
    // A step of the first epoch, as Training::step makes it.
    const int64_t count = planned.settings.first_accumulation();
    for (const Segment& each : trace.segments)
      if (const int64_t runs = runs_in_step(trace, each.kind, count, planned.settings.last_micro_batch > 0); runs > 0)
        groups.add(each, runs);
    return groups.finish();
  }
  const Segment* found = trace.segment_named(segment);
  if (!found) {
    std::vector<std::string> names;
    for (const Segment& each : trace.segments) names.emplace_back(name_of(each.kind));
    throw UserError(
        fmt::format("the schedule has no segment {}; it has {}", in_quotes(segment), fmt::join(names, ", ")));
  }
  groups.add(*found, 1);
  return groups.finish();
}

PlannedJob plan_by_timed_ops(const Job& job, double seconds) {
  inspect_machine(threads_of(job));  // the lower bounds use measured rates
  // Stored times may be from a time when the machine was busy.
  if (seconds > 0) measure_machine(job, seconds, unix_seconds_now());
  return plan_job(job);
}

}  // namespace plimsoll
