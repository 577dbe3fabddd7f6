#include "plan/reasons.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstdlib>
#include <map>
#include <set>
#include <string>

#include "plan/passes/passes.h"
#include "plimsoll/bytes.h"

namespace plimsoll {
namespace {

std::string compile_decision(const PlanOptions& options) {
  return options.fusion_rules->all ? "compile: on" : "compile: auto";
}

}  // namespace

Reason fixed_reason(const PlanOptions& options, const Plan& plan) {
  if (options.gradient_checkpointing == Choice::off) return {"gradient_checkpointing: off", "set in the job"};
  if (!plan.checkpointed)
    return {"gradient_checkpointing: off", "set in the job, but the model has no blocks to recompute"};
  const std::string blocks =
      options.checkpointed_module.empty() ? "each block" : "each block of '" + options.checkpointed_module + "'";
  return {"gradient_checkpointing: on", "set in the job: only the input of " + blocks + " is kept"};
}

Reason recompute_reason(const Plan& plan, bool fits, int64_t keep_all_peak, std::optional<int64_t> budget) {
  const std::string decision = plan.checkpointed ? "gradient_checkpointing: on" : "gradient_checkpointing: off";
  if (!budget) return {decision, "no budget is set"};
  const std::string without = format_bytes(keep_all_peak), stated = format_bytes(*budget);
  if (plan.checkpointed)
    return {decision, fmt::format("the step takes {} without recomputation, {} with it; the budget is {}", without,
                                  format_bytes(plan.peak_bytes), stated)};
  if (!fits) return {decision, "no saved value can be recomputed in fewer bytes"};
  if (plan.host_bytes > 0)
    return {
        decision,
        fmt::format("the step takes {} without recomputation, the budget is {}; offload to host memory costs less time",
                    without, stated)};
  return {decision, fmt::format("the step fits without recomputation: {} of {}", without, stated)};
}

Reason update_reason(const PlanOptions& options, const Plan& plan) {
  if (options.update_in_backward == Choice::on) return {"update_in_backward: on", "set in the job"};
  std::string why = "the bytes of each gradient are free as soon as its parameter is updated";
  if (plan.time.norms == 0) why += "; a gradient that is not finite stops the updates after it, not those before";
  if (plan.time.norms > 0)
    why += fmt::format("; clipping needs the norm of all gradients first: an additional backward pass of {:.3g} ms",
                       1e3 * plan.time.norms);
  return {"update_in_backward: on", std::move(why)};
}

Reason loss_rows_reason(const std::vector<SlicedHead>& heads, int64_t less) {
  std::string text;
  for (const SlicedHead& head : heads)
    text +=
        fmt::format("{}logits{} in {} chunks of rows, {} of {} at a time{}", text.empty() ? "" : "; ",
                    head.module.empty() ? "" : fmt::format(" of '{}'", head.module), head.chunks,
                    format_bytes(head.chunk_bytes), format_bytes(head.whole_bytes), head.recomputed ? ", twice" : "");
  return {"loss_rows: on", fmt::format("{}: {} less", text, format_bytes(std::max<int64_t>(less, 0)))};
}

Reason fusion_reason(const PlanOptions& options, const Plan& plan) {
  const auto fused = std::ranges::count_if(plan.trace.ops, is_fused);
  return {compile_decision(options),
          fmt::format("{} ops run as {} fused ops, which read and write fewer bytes", plan.fused_ops, fused)};
}

Reason scratch_reason(const Plan& before, const Plan& plan, int64_t grown) {
  std::set<std::string> names;
  int64_t bytes = 0;
  for (size_t i = 0; i < plan.trace.ops.size(); ++i)
    if (const Op& op = plan.trace.ops[i]; op.call != before.trace.ops[i].call) {
      names.insert(op.name.substr(0, op.name.find('.')));
      bytes = std::max(bytes, op.workspace_bytes);
    }
  const int64_t more = plan.peak_bytes - before.peak_bytes;
  return {"scratch",
          fmt::format("{} op{} ({}) work{} in larger pieces, with at most {} of scratch; the peak is {}", grown,
                      grown == 1 ? "" : "s", fmt::join(names, ", "), grown == 1 ? "s" : "", format_bytes(bytes),
                      more == 0 ? "the same"
                                : fmt::format("{} {}", format_bytes(std::abs(more)), more > 0 ? "higher" : "lower"))};
}

Reason overlap_reason(const PlanOptions& options, const Plan& plan) {
  const auto beside = std::ranges::count(plan.trace.ops, CopyStage::start, &Op::exchange);
  const auto all = std::ranges::count_if(plan.trace.ops, [](const Op& op) { return op.link_bytes > 0; });
  const StepExchanges exchanges =
      exchanges_of_step(options.cost, plan.trace, options.micro_batches,
                        options.micro_batches > 1 && plan.trace.segment(SegmentKind::remainder));
  return {"exchanges: beside other ops",
          fmt::format("{} of {} exchanges run beside other ops; {:.0f} % of their predicted time is hidden", beside,
                      all, 100 * (1 - exchanges.waited / std::max(exchanges.seconds, 1e-12)))};
}

Reason grouping_reason(const PlanOptions& options, const GroupedUpdates& grouped) {
  std::string what = fmt::format("{} updates of small parameters", grouped.updates);
  if (grouped.updates == 0)  // those of Adafactor stay alone
    what = fmt::format("norms of {} small gradients", grouped.norms);
  else if (grouped.norms > 0)
    what += fmt::format(" and {} norms of their gradients", grouped.norms);
  return {compile_decision(options), fmt::format("{} run as {} groups, which share launches and, in updates, threads",
                                                 what, grouped.groups + grouped.norm_groups)};
}

namespace {

// Returns the label with block numbers replaced: "swiglu in layers.*.mlp.up" for "swiglu in layers.7.mlp.up".
std::string common_name(const std::string& label) {
  std::string name;
  for (size_t i = 0; i < label.size(); ++i) {
    const bool digit = label[i] >= '0' && label[i] <= '9';
    const bool part = digit && (i == 0 || label[i - 1] == '.');
    if (!part) {
      name += label[i];
      continue;
    }
    while (i + 1 < label.size() && label[i + 1] >= '0' && label[i + 1] <= '9') ++i;
    name += '*';
  }
  return name;
}

struct Kind {
  int64_t count = 0, bytes = 0, cost = 0;
  double held = 0;  // sum over values of the fraction of the segment in which they would be kept
};

std::string milliseconds(int64_t picoseconds) {
  return fmt::format("{:.3g} ms", static_cast<double>(picoseconds) * 1e-9);
}

}  // namespace

std::vector<Reason> explain_recomputation(const Trace& trace, const TrainingGraph& graph, const KeptValues& kept,
                                          size_t max_reasons) {
  std::map<int32_t, int64_t> again;  // recomputed steps and their picoseconds
  for (const RecomputePoint& point : recompute_points(graph, kept))
    for (int32_t step : point.steps) again[step] = graph.steps[step].cost;
  const auto length = static_cast<double>(graph.segment.end - graph.segment.begin);
  std::map<std::string, Kind> kinds;
  for (size_t v = 0; v < graph.values.size(); ++v) {
    const ForwardValue& value = graph.values[v];
    if (kept[v] || !value.needed()) continue;
    Kind& kind = kinds[common_name(trace.buffers[value.buffer].label)];
    ++kind.count;
    kind.bytes += value.bytes;
    for (int32_t maker : value.makers)
      if (const auto found = again.find(maker); found != again.end()) {
        kind.cost += found->second;
        again.erase(found);  // further results of the same op add no cost
      }
    const int32_t last =
        value.readers.empty() ? value.makers.back() : std::max(value.makers.back(), value.readers.back());
    kind.held += static_cast<double>(value.uses.front() - graph.steps[last].op) / length;
  }
  std::vector<std::pair<std::string, Kind>> order(kinds.begin(), kinds.end());
  std::stable_sort(order.begin(), order.end(),
                   [](const auto& a, const auto& b) { return a.second.bytes > b.second.bytes; });
  std::vector<Reason> reasons;
  int64_t rest_bytes = 0, rest_cost = 0;
  size_t rest = 0;
  for (const auto& [name, kind] : order) {
    if (reasons.size() < max_reasons) {
      const std::string each = kind.count > 1 ? fmt::format("{} values, ", kind.count) : "";
      reasons.push_back({"recompute: " + name,
                         fmt::format("{}{}, unused for {:.0f} % of the step's ops; recomputing takes {}", each,
                                     format_bytes(kind.bytes), 100 * kind.held / static_cast<double>(kind.count),
                                     milliseconds(kind.cost))});
    } else {
      ++rest;
      rest_bytes += kind.bytes;
      rest_cost += kind.cost;
    }
  }
  int64_t between = 0;  // cost of steps that are recomputed only for other recomputed values
  for (const auto& [step, cost] : again) between += cost;
  if (rest > 0 || between > 0)
    reasons.push_back({"recompute: other values",
                       fmt::format("{} kinds of values, {}; recomputing takes {}, and {} for ops between them", rest,
                                   format_bytes(rest_bytes), milliseconds(rest_cost), milliseconds(between))});
  return reasons;
}

std::vector<Reason> explain_offload(const Trace& trace, const TrainingGraph& graph, const std::vector<char>& offloaded,
                                    const CostModel& cost, const Plan& plan) {
  std::vector<Reason> reasons;
  const auto milliseconds_of = [](double seconds) { return fmt::format("{:.3g} ms", seconds * 1e3); };
  std::map<std::string, std::pair<int64_t, int64_t>> kinds;  // bytes, count
  int64_t count = 0, recompute_cost = 0;
  std::set<int32_t> makers;  // steps that make several results are counted once
  for (size_t v = 0; v < offloaded.size(); ++v) {
    if (!offloaded[v]) continue;
    auto& [bytes, values] = kinds[common_name(trace.buffers[graph.values[v].buffer].label)];
    bytes += graph.values[v].bytes;
    ++values;
    ++count;
    for (int32_t maker : graph.values[v].makers)
      if (makers.insert(maker).second) recompute_cost += graph.steps[maker].cost;
  }
  if (count > 0) {
    const auto most = std::max_element(kinds.begin(), kinds.end(),
                                       [](const auto& a, const auto& b) { return a.second.first < b.second.first; });
    reasons.push_back(
        {"offload: saved values",
         fmt::format("{} in {} values stay in host memory until the backward pass, mostly {} of {}; copies take {} in "
                     "each direction, ops wait {} for copies; recomputing the values takes {}",
                     format_bytes(plan.offloaded_saved_bytes), count, format_bytes(most->second.first), most->first,
                     milliseconds_of(copy_seconds(cost, plan.offloaded_saved_bytes)),
                     milliseconds_of(plan.time.offload), milliseconds(recompute_cost))});
  }
  const std::string where = plan.disk_bytes == 0   ? "in host memory"
                            : plan.host_bytes == 0 ? "on disk"
                                                   : "in host memory, or on disk";
  if (plan.offloaded_state_bytes > 0)
    reasons.push_back(
        {"offload: optimizer state",
         fmt::format(
             "{} are stored {}; the update waits {} for {}", format_bytes(plan.offloaded_state_bytes), where,
             milliseconds_of(plan.time.update_offload),
             plan.offloaded_gradient_bytes + plan.offloaded_parameter_bytes > 0 ? "all copies" : "these copies")});
  if (plan.offloaded_gradient_bytes > 0)
    reasons.push_back(
        {"offload: gradients",
         fmt::format("{} leave the device as soon as each gradient is complete, and are stored {} until the update",
                     format_bytes(plan.offloaded_gradient_bytes), where)});
  if (plan.offloaded_parameter_bytes > 0)
    reasons.push_back({"offload: parameters", fmt::format("{} are stored {} and copied in for each use, mostly while "
                                                          "earlier ops run; a micro batch waits {} for the link",
                                                          format_bytes(plan.offloaded_parameter_bytes), where,
                                                          milliseconds_of(plan.time.offload))});
  if (plan.host_updates > 0)
    reasons.push_back({"update: on the host", fmt::format("{} parameters are updated where their state is stored; "
                                                          "their gradients are copied there, and no state is copied in",
                                                          plan.host_updates)});
  if (plan.disk_bytes > 0)
    reasons.push_back(
        {"offload: disk", fmt::format("{} do not fit in host_memory_budget, {}", format_bytes(plan.disk_bytes),
                                      plan.budget.host > 0 ? format_bytes(plan.budget.host) : "none")});
  return reasons;
}

}  // namespace plimsoll
