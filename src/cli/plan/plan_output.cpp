#include "cli/plan/plan_output.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>

#include "base/text.h"
#include "cli/output.h"
#include "cli/plan/plan_ranks.h"
#include "cli/result_text.h"
#include "cli/screen/table.h"
#include "plimsoll/bytes.h"
#include "plimsoll/cost_model.h"
#include "plimsoll/devices.h"
#include "plimsoll/job.h"
#include "plimsoll/plan.h"
#include "plimsoll/plan_page.h"
#include "plimsoll/trace.h"

namespace plimsoll::cli {
namespace {

std::string breakdown_table(const PlannedJob& planned, const Screen& screen) {
  const Plan& plan = planned.plan;
  Table table({{"part"}, {"planned", Align::right}, {"bytes", Align::right}, {"share", Align::right}},
              "Memory at the peak");
  const auto add = [&](const std::string& name, int64_t bytes) {
    table.add_row({name, format_bytes(bytes), std::to_string(bytes), percent_of(bytes, plan.peak_bytes)});
  };
  for_each_part([&](const char* name, int64_t Breakdown::*part) { add(name, plan.breakdown.*part); });
  table.add_rule();
  add("peak", plan.peak_bytes);
  if (plan.budget.device_bytes() > 0)
    table.add_row({"budget", format_bytes(plan.budget.device_bytes()), std::to_string(plan.budget.device_bytes())});
  if (plan.budget.host > 0) {
    table.add_row({"host memory", format_bytes(plan.host_bytes), std::to_string(plan.host_bytes)});
    table.add_row({"host budget", format_bytes(plan.budget.host), std::to_string(plan.budget.host)});
  }
  if (plan.budget.disk > 0) {
    table.add_row({"disk", format_bytes(plan.disk_bytes), std::to_string(plan.disk_bytes)});
    table.add_row({"disk budget", format_bytes(plan.budget.disk), std::to_string(plan.budget.disk)});
  }
  if (const ProcessMemory& process = planned.process; process.budget > 0) {
    table.add_row({"process, without data", format_bytes(process.total()), std::to_string(process.total())});
    table.add_row({"process budget", format_bytes(process.budget), std::to_string(process.budget)});
  }
  return table.to_string(screen);
}

// Returns "12.3 ms per micro batch, 8.1 % more; lower bound 12.1 ms".
std::string recomputation_of(const Plan& plan) {
  const StepTime& time = plan.time;
  const std::string text =
      fmt::format("{} per micro batch, {:.1f} % more", short_seconds(time.recompute), 100 * time.recompute_share());
  if (time.recompute_lower_bound <= 0) return text;  // no search was made: gradient_checkpointing is set
  return text + fmt::format("; lower bound {}{}", short_seconds(time.recompute_lower_bound),
                            plan.host_bytes + plan.disk_bytes > 0 ? " with offload" : "");
}

// Returns "adamw, state 8bit, weights stochastic, sums of gradients 8bit".
std::string optimizer_of(const Job& job, const ResolvedSettings& settings) {
  std::string text = job.optimizer.name;
  if (settings.optimizer.state_dtype != StateDtype::as_parameters)
    text += fmt::format(", state {}", name_of(settings.optimizer.state_dtype));
  const bool low = settings.precision == Precision::bf16_true || (job.dtype && *job.dtype != DType::float32);
  if (low) text += fmt::format(", weights {}", name_of(settings.optimizer.weight_update));
  if (settings.accumulator_dtype != AccumulatorDtype::as_gradients)
    text += fmt::format(", gradient accumulators {}", name_of(settings.accumulator_dtype));
  return text;
}

// Returns the largest bytes of weights, gradients and optimizer state, and the bytes per parameter. Fine-tuning jobs
// get no bytes per parameter: frozen or quantized weights would make the figure meaningless.
std::string bytes_of_model(const Job& job, const PlannedJob& planned) {
  if (job.fine_tuning.any())
    return fmt::format("at most {} of weights, gradients and optimizer state at a time",
                       format_bytes(peak_model_bytes(planned.plan)));
  const double count = static_cast<double>(std::max<int64_t>(planned.settings.rank_parameters, 1));
  return fmt::format("{:.2f}; at most {} of weights, gradients and optimizer state at a time",
                     static_cast<double>(peak_model_bytes(planned.plan)) / count,
                     format_bytes(peak_model_bytes(planned.plan)));
}

std::string update_of(const Plan& plan) {
  if (plan.time.norms == 0) return "yes; a gradient lives until its parameter is updated";
  return fmt::format("yes; computing the norm of all gradients first takes {} per step",
                     short_seconds(plan.time.norms));
}

// Returns "1.2 GiB of saved values, 4.1 GiB of optimizer state; waits 0.3 ms a micro batch, 12 ms an update".
std::string offload_of(const Plan& plan) {
  std::string text = fmt::format("{} of saved values, {} of optimizer state", format_bytes(plan.offloaded_saved_bytes),
                                 format_bytes(plan.offloaded_state_bytes));
  if (plan.offloaded_gradient_bytes > 0)
    text += fmt::format(", {} of gradients", format_bytes(plan.offloaded_gradient_bytes));
  if (plan.offloaded_parameter_bytes > 0)
    text += fmt::format(", {} of parameters", format_bytes(plan.offloaded_parameter_bytes));
  if (plan.host_updates > 0) text += fmt::format(", {} updates on the host", plan.host_updates);
  return text + fmt::format("; waits {} per micro batch, {} per update", short_seconds(plan.time.offload),
                            short_seconds(plan.time.update_offload));
}

// Returns "12.4 k tokens/s per device, ± 15 %"; the uncertainty is that of devices of the catalogue.
std::string throughput_of(const Job& job, const PlannedJob& planned) {
  std::string text = fmt::format("{} {}/s{}", short_count(planned.tokens_per_second), unit_of(job),
                                 planned.settings.ranks.count > 1 ? " per device" : "");
  if (const double uncertainty = step_uncertainty(planned.settings.cost, planned.plan.trace); uncertainty > 0)
    text += fmt::format(", ± {:.0f} %", 100 * uncertainty);
  return text;
}

bool offloads_any(const Plan& plan) {
  return plan.host_bytes + plan.disk_bytes > 0;
}

// Returns "embed.weight, layers.0.mlp.up.weight, … (64 in all)".
std::string parameters_offloaded(const Plan& plan) {
  constexpr int kMaxLabels = 4;
  std::string text;
  int count = 0;
  for (const Buffer& buffer : plan.trace.buffers) {
    if (buffer.on_device() || buffer.role != Role::parameter || !buffer.persistent) continue;
    if (++count <= kMaxLabels) text += (count > 1 ? ", " : "") + buffer.label;
  }
  return count > kMaxLabels ? fmt::format("{}, … ({} in all)", text, count) : text;
}

std::string step_table(const Job& job, const PlannedJob& planned, const std::string& run_length, const Screen& screen) {
  const ResolvedSettings& settings = planned.settings;
  const int64_t accumulation = settings.first_accumulation();
  Table table({{""}, {.fit = Fit::fold, .min_width = 20}}, "The step");
  table.add_row({job.fine_tuning.any() ? "trainable parameters" : "parameters", describe_parameters(planned.settings)});
  table.add_row({"precision", std::string(name_of(planned.settings.precision))});
  table.add_row({"optimizer", optimizer_of(job, settings)});
  table.add_row({job.fine_tuning.any() ? "model memory" : "bytes per parameter", bytes_of_model(job, planned)});
  table.add_row({"micro batch", describe_samples(job, settings.micro_batch())});
  table.add_row({"gradient accumulation", std::to_string(accumulation)});
  if (settings.last_micro_batch > 0)
    table.add_row({"last micro batch", describe_samples(job, settings.last_micro_batch)});
  table.add_row({"effective batch", std::to_string(effective_batch_of(settings))});
  table.add_row({"run", run_length});
  table.add_row({"prefetched batches", format_bytes(settings.prefetched_batch_bytes) + " of host memory"});
  table.add_row({"operators recorded", std::to_string(planned.recorded.ops.size())});
  // A plan that does not fit does not run. Its time would mislead, because the minimum budget may need less time.
  const bool runs = planned.plan.fits;
  if (runs) {
    table.add_row({"predicted step", short_seconds(planned.step_seconds)});
    table.add_row({"predicted throughput", throughput_of(job, planned)});
    table.add_row({"predicted by", fmt::format("{} ({})", planned.settings.cost.device, planned.settings.cost.source)});
  }
  for (const auto& [name, text] : rank_rows(job, planned)) table.add_row({name, text});
  if (planned.plan.update_in_backward) table.add_row({"update in backward", update_of(planned.plan)});
  if (runs && planned.plan.checkpointed) table.add_row({"recomputation", recomputation_of(planned.plan)});
  if (runs && offloads_any(planned.plan)) table.add_row({"offload", offload_of(planned.plan)});
  table.add_row({"arena waste", fmt::format("{:.2f} %", 100 * planned.plan.arena_waste())});
  table.add_row({"recorded in", short_seconds(planned.record_seconds)});
  table.add_row({"planned in", short_seconds(planned.plan_seconds)});
  return table.to_string(screen);
}

}  // namespace

std::string frontier_table(const std::vector<FrontierPoint>& frontier, const Screen& screen) {
  Table table({{"budget", Align::right},
               {"peak", Align::right},
               {"step", Align::right},
               {.name = "choices", .fit = Fit::fold, .min_width = 20}},
              "Memory against predicted step time");
  for (const FrontierPoint& point : frontier)
    table.add_row({format_bytes_up(point.budget_bytes), format_bytes(point.peak_bytes),
                   short_seconds(point.step_seconds), point.choices});
  return table.to_string(screen);
}

std::string plan_page(const Job& job, const PlannedJob& planned, const std::vector<FrontierPoint>& frontier) {
  PlanPage page;
  page.title = job.file.empty() ? "job" : job.file.filename().string();
  page.subtitle = fmt::format("{} parameters, {}, planned for {}", describe_parameters(planned.settings),
                              name_of(planned.settings.precision), planned.settings.cost.device);
  page.plan = &planned.plan;
  page.minimum_budget_bytes = planned.minimum_budget_bytes;
  page.op_seconds.assign(planned.plan.trace.ops.size(), 0);
  for (const Segment& segment : planned.plan.trace.segments) {
    double before = 0;
    const std::vector<double> ends = end_times(planned.settings.cost, planned.plan.trace, segment.kind);
    for (size_t i = 0; i < ends.size(); ++i) {
      page.op_seconds[segment.begin + i] = ends[i] - before;
      before = ends[i];
    }
  }
  page.frontier = frontier;
  page.facts = {{"micro batch", describe_samples(job, planned.settings.micro_batch())},
                {"gradient accumulation", planned.settings.last_micro_batch > 0
                                              ? describe_micro_batches(planned.settings)
                                              : std::to_string(planned.settings.first_accumulation())}};
  if (planned.plan.fits) {
    page.facts.emplace_back("predicted step", short_seconds(planned.step_seconds));
    page.facts.emplace_back("predicted throughput", throughput_of(job, planned));
    for (const auto& [name, text] : rank_rows(job, planned)) page.facts.emplace_back(name, text);
    page.facts.emplace_back("predicted by",
                            fmt::format("{} ({})", planned.settings.cost.device, planned.settings.cost.source));
  }
  if (planned.plan.update_in_backward) page.facts.emplace_back("update in backward", update_of(planned.plan));
  if (planned.plan.checkpointed) page.facts.emplace_back("recomputation", recomputation_of(planned.plan));
  if (offloads_any(planned.plan)) page.facts.emplace_back("offload", offload_of(planned.plan));
  if (planned.plan.offloaded_parameter_bytes > 0)
    page.facts.emplace_back("offloaded parameters", parameters_offloaded(planned.plan));
  if (planned.plan.disk_bytes > 0) page.facts.emplace_back("disk", format_bytes(planned.plan.disk_bytes));
  return to_html(page);
}

std::string plan_text(const Job& job, const PlannedJob& planned, const std::string& run_length, const Screen& screen) {
  const Plan& plan = planned.plan;
  const std::string verdict = fold(verdict_of(planned), screen.columns, 2);
  std::string text = plan.fits ? verdict : peak_report(planned, screen);
  // The effective batch is printed with the verdict: a batch of another size is another training.
  std::string beside = fold(describe_effective_batch(planned.settings), screen.columns, 2);
  if (!planned.settings.slow_matmul_note.empty()) beside += fold(planned.settings.slow_matmul_note, screen.columns, 2);
  for (const Reason& reason : plan.reasons)
    if (reason.decision == "memory_budget")
      beside += fold(fmt::format("memory_budget: {}", reason.why), screen.columns, 2);
  text.insert(verdict.size(), beside);
  text += "\n" + breakdown_table(planned, screen);
  if (const std::string shares = shares_text(planned, screen); !shares.empty()) text += "\n" + shares;
  text += "\n" + step_table(job, planned, run_length, screen);
  if (!plan.reasons.empty()) text += "\nDecisions\n\n";
  for (const Reason& reason : plan.reasons)
    text += fold(fmt::format("{}: {}", reason.decision, reason.why), screen.columns, 2);
  if (plan.offloaded_parameter_bytes > 0)
    text += fold(fmt::format("offloaded parameters: {}", parameters_offloaded(plan)), screen.columns, 2);
  return text;
}

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
  const double uncertainty = step_uncertainty(planned.settings.cost, plan.trace);
  Json json{{"fits", plan.fits},
            {"budget_bytes", plan.budget.device_bytes()},
            {"peak_bytes", plan.peak_bytes},
            {"minimum_budget_bytes", planned.minimum_budget_bytes},
            {"plan_hash", plan_hash(plan)},
            {"breakdown", json_of(plan.breakdown)},
            {"step_seconds", planned.step_seconds},
            {"units_per_second", planned.tokens_per_second},
            {"uncertainty", uncertainty > 0 ? Json(uncertainty) : Json(nullptr)},
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
            {"process", planned.process.budget > 0 ? json_of(planned.process) : Json(nullptr)},
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

namespace {

// Returns the card of the plan, if the catalogue has it. Its rates may have been measured by plimsoll doctor.
const DeviceSpec* card_of(const PlannedJob& planned) {
  const CostModel& cost = planned.settings.cost;
  return cost.gpu.is_gpu ? find_device(cost.device) : nullptr;
}

double share(int64_t part, int64_t whole) {
  return static_cast<double>(part) / static_cast<double>(whole);
}

// Returns "97.9 % of" or, if the part is at least twice the whole, "23.9 times".
std::string part_of(int64_t part, int64_t whole) {
  const double ratio = share(part, whole);
  return ratio < 2 ? percent_of(part, whole) + " of" : fmt::format("{:.{}f} times", ratio, ratio < 100 ? 1 : 0);
}

}  // namespace

std::string shares_text(const PlannedJob& planned, const Screen& screen) {
  const Plan& plan = planned.plan;
  const DeviceSpec* const card = card_of(planned);
  std::string text;
  if (plan.budget.device_bytes() > 0) text = part_of(plan.peak_bytes, plan.budget.device_bytes()) + " the budget";
  if (card)
    text += fmt::format("{}{} the {} of {}", text.empty() ? "" : ", ", part_of(plan.peak_bytes, card->memory_bytes),
                        format_bytes(card->memory_bytes), card->name);
  if (plan.budget.device_bytes() > 0) {
    const int64_t headroom = plan.budget.device_bytes() - plan.peak_bytes;
    text += headroom >= 0 ? fmt::format("; headroom {} ({} bytes)", format_bytes(headroom), headroom)
                          : fmt::format("; {} ({} bytes) over the budget", format_bytes(-headroom), -headroom);
  }
  return text.empty() ? "" : fold(text, screen.columns, 2);
}

void add_shares(Json& json, const PlannedJob& planned) {
  const Plan& plan = planned.plan;
  const bool bounded = plan.budget.device_bytes() > 0;
  json["headroom_bytes"] = bounded ? Json(plan.budget.device_bytes() - plan.peak_bytes) : Json(nullptr);
  json["budget_share"] = bounded ? Json(share(plan.peak_bytes, plan.budget.device_bytes())) : Json(nullptr);
  const DeviceSpec* const card = card_of(planned);
  json["device_bytes"] = card ? Json(card->memory_bytes) : Json(nullptr);
  json["device_share"] = card ? Json(share(plan.peak_bytes, card->memory_bytes)) : Json(nullptr);
}

std::string modules_table(const Plan& plan, const Screen& screen) {
  Table table({{.name = "module", .fit = Fit::middle, .min_width = 12},
               {"parameters", Align::right},
               {"gradients", Align::right},
               {"state", Align::right},
               {"activations", Align::right},
               {.name = "other", .align = Align::right, .drop = 1},
               {"sum", Align::right},
               {"share", Align::right}},
              "Memory at the peak by module");
  const auto add = [&](const std::string& name, const Breakdown& bytes) {
    const int64_t other = bytes.inputs + bytes.workspace + bytes.context + bytes.fragmentation;
    table.add_row({name, format_bytes(bytes.parameters), format_bytes(bytes.gradients),
                   format_bytes(bytes.optimizer_state), format_bytes(bytes.activations), format_bytes(other),
                   format_bytes(bytes.total()), percent_of(bytes.total(), plan.peak_bytes)});
  };
  for (const auto& [module, bytes] : bytes_by_module(plan)) add(module.empty() ? "no module" : module, bytes);
  table.add_rule();
  add("peak", plan.breakdown);
  return table.to_string(screen);
}

Json modules_json(const Plan& plan) {
  Json list = Json::array();
  for (const auto& [module, bytes] : bytes_by_module(plan))
    list.push_back({{"module", module.empty() ? Json(nullptr) : Json(module)},
                    {"bytes", bytes.total()},
                    {"breakdown", json_of(bytes)}});
  return list;
}

}  // namespace plimsoll::cli
