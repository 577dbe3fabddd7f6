#include "cli/choices_json.h"

namespace plimsoll::cli {
namespace {

Json schedule_json(const AccumulationSchedule& schedule) {
  if (schedule.size() == 1) return schedule.begin()->second;
  Json json = Json::object();
  for (const auto& [epoch, steps] : schedule) json[std::to_string(epoch)] = steps;
  return json;
}

}  // namespace

Json choices_json(const PlannedJob& planned) {
  const ResolvedSettings& settings = planned.settings;
  return {{"micro_batch_size", settings.micro_batch()},
          {"gradient_accumulation_steps", schedule_json(settings.accumulation())},
          {"last_micro_batch", settings.last_micro_batch > 0 ? settings.last_micro_batch : settings.micro_batch()},
          {"gradient_checkpointing", planned.plan.checkpointed},
          {"update_in_backward", planned.plan.update_in_backward},
          {"offload_saved_bytes", planned.plan.offloaded_saved_bytes},
          {"offload_state_bytes", planned.plan.offloaded_state_bytes},
          {"offload_gradient_bytes", planned.plan.offloaded_gradient_bytes},
          {"offload_parameter_bytes", planned.plan.offloaded_parameter_bytes},
          {"host_updates", planned.plan.host_updates},
          {"fused_ops", planned.plan.fused_ops},
          {"precision", name_of(settings.precision)},
          {"state_dtype", name_of(settings.optimizer.state_dtype)},
          {"weight_update", name_of(settings.optimizer.weight_update)},
          {"gradient_accumulation_dtype", name_of(settings.accumulator_dtype)}};
}

Json reasons_json(const Plan& plan) {
  Json reasons = Json::array();
  for (const Reason& reason : plan.reasons) reasons.push_back({{"decision", reason.decision}, {"why", reason.why}});
  return reasons;
}

}  // namespace plimsoll::cli
