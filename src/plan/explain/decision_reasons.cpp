#include "plan/explain/decision_reasons.h"

#include <fmt/format.h>

#include <algorithm>
#include <string>

#include "plan/passes/fuse_pointwise.h"
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

Reason fusion_reason(const PlanOptions& options, const Plan& plan) {
  const auto fused = std::ranges::count_if(plan.trace.ops, is_fused);
  return {compile_decision(options),
          fmt::format("{} ops run as {} fused ops, which read and write fewer bytes", plan.fused_ops, fused)};
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
  return {compile_decision(options),
          fmt::format("{} updates of small parameters run as {} groups, which share threads and launches",
                      grouped.updates, grouped.groups)};
}

}  // namespace plimsoll
