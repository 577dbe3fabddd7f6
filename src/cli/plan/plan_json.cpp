#include "cli/plan/plan_json.h"

#include <algorithm>

#include "cli/batch_words.h"
#include "cli/choices_json.h"
#include "cli/plan/plan_ranks.h"
#include "cli/plan/plan_shares.h"
#include "cli/verdict.h"
#include "plimsoll/job.h"
#include "plimsoll/trace.h"

namespace plimsoll::cli {
namespace {

// Returns the offloaded buffers by name. Gradients are offloaded from a micro batch to the update. A copy of a gradient
// for an update on the host is temporary, and not listed.
Json elsewhere_json(const Plan& plan) {
  const std::vector<Segment>& segments = plan.trace.segments;
  const std::vector<Lifetime> lifetimes = lifetimes_of(plan.trace);
  const auto within_one_segment = [&](const Lifetime& lifetime) {
    return std::ranges::any_of(segments, [&](const Segment& segment) {
      return segment.begin <= lifetime.birth && lifetime.death <= segment.end;
    });
  };
  Json list = Json::array();
  for (size_t b = 0; b < plan.trace.buffers.size(); ++b)
    if (const Buffer& buffer = plan.trace.buffers[b];
        !buffer.on_device() &&
        (buffer.persistent || (buffer.role == Role::gradient && !within_one_segment(lifetimes[b]))))
      list.push_back({{"label", buffer.label},
                      {"role", name_of(buffer.role)},
                      {"memory", name_of(buffer.memory)},
                      {"bytes", buffer.bytes}});
  return list;
}

}  // namespace

Json plan_json(const Job& job, const PlannedJob& planned) {
  const Plan& plan = planned.plan;
  Json json{{"fits", plan.fits},
            {"budget_bytes", plan.budget.device_bytes()},
            {"peak_bytes", plan.peak_bytes},
            {"minimum_budget_bytes", planned.minimum_budget_bytes},
            {"plan_hash", plan_hash(plan)},
            {"breakdown", json_of(plan.breakdown)},
            {"step_seconds", planned.step_seconds},
            {"units_per_second", planned.tokens_per_second},
            {"unit", unit_of(job)},
            {"norms_seconds", plan.time.norms},
            {"recompute_seconds", plan.time.recompute},
            {"recompute_bound_seconds", plan.time.recompute_lower_bound},
            {"offload_seconds", plan.time.offload},
            {"update_offload_seconds", plan.time.update_offload},
            {"host_bytes", plan.host_bytes},
            {"batches_ahead_bytes", planned.settings.prefetched_batch_bytes},
            {"host_budget_bytes", plan.budget.host},
            {"disk_bytes", plan.disk_bytes},
            {"disk_budget_bytes", plan.budget.disk},
            {"elsewhere", elsewhere_json(plan)},
            {"cost_model", {{"device", planned.settings.cost.device}, {"source", planned.settings.cost.source}}},
            {"effective_batch_size", effective_batch_of(planned.settings)},
            {"choices", choices_json(planned)},
            {"reasons", reasons_json(plan)},
            {"plan_seconds", planned.plan_seconds},
            {"record_seconds", planned.record_seconds},
            {"parameters", planned.settings.parameters},
            {"model_parameters", planned.settings.model_parameters},
            {"rank_parameters", planned.settings.rank_parameters},
            {"model_bytes", peak_model_bytes(plan)},
            {"arena_bytes", plan.arena_bytes},
            {"live_bytes", plan.live_bytes},
            {"arena_waste", plan.arena_waste()},
            {"residents", json_of(largest_at_peak(plan, kResidentsShown))}};
  add_shares(json, planned);
  add_ranks(json, job, planned);
  return json;
}

Json frontier_json(const std::vector<FrontierPoint>& frontier) {
  Json list = Json::array();
  for (const FrontierPoint& point : frontier)
    list.push_back({{"budget_bytes", point.budget_bytes},
                    {"peak_bytes", point.peak_bytes},
                    {"step_seconds", point.step_seconds},
                    {"choices", point.choices},
                    {"fits", point.fits}});
  return list;
}

}  // namespace plimsoll::cli
