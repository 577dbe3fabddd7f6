// plimsoll plan: whether a job fits, what fills the memory, and why it was planned so. Runs no step, reads no data.
#include <fmt/format.h>
#include <unistd.h>

#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <algorithm>
#include <memory>

#include "base/atomic_file.h"
#include "cli/command.h"
#include "cli/job_arguments.h"
#include "cli/plan_json.h"
#include "cli/plan_text.h"
#include "cli/what_if.h"
#include "plimsoll/bytes.h"
#include "plimsoll/cost_model.h"
#include "plimsoll/devices.h"
#include "plimsoll/error.h"
#include "plimsoll/liveness.h"
#include "plimsoll/plan_page.h"
#include "plimsoll/train_job.h"
#include "report/progress.h"
#include "report/table.h"
#include "report/terminal.h"
#include "train/job_units.h"

namespace plimsoll::cli {
namespace {

constexpr const char* kExamples =
    "Examples:\n"
    "  plimsoll plan job.yaml\n"
    "  plimsoll plan job.yaml memory_budget=2GiB micro_batch_size=4\n"
    "  plimsoll plan job.yaml --gpu a6000 --frontier\n"
    "  plimsoll plan job.yaml --gpu rtx3060-12gb,rtx4090,l40s     which of them can train this, how fast\n"
    "  plimsoll plan job.yaml --memory 12GiB --html plan.html\n"
    "  plimsoll plan job.yaml --recipe saving --gpu rtx3060-12gb  bf16 weights, 8-bit state, updates in backward\n"
    "  plimsoll plan job.yaml --gpu l40s --what-if                 a shorter sequence, a narrower layer: each planned "
    "again\n"
    "  plimsoll plan job.yaml --json - | jq .minimum_budget_bytes\n\n";

// Points of a frontier where nobody says how many.
constexpr int kFrontierPoints = 13;

struct PlanArguments {
  JobArguments job;
  std::vector<std::string> gpus;
  std::string memory;
  std::string html;
  int frontier = 0;
  bool what_if = false;
};

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

// What lies in another memory from step to step, by name. Gradients do so from a micro batch to the update; what of
// them an update on the host gets as a copy is gone with it.
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

Json plan_json(const Job& job, const PlannedJob& planned) {
  const Plan& plan = planned.plan;
  return {{"fits", plan.fits},
          {"budget_bytes", plan.budget_bytes},
          {"peak_bytes", plan.peak_bytes},
          {"minimum_budget_bytes", plan.minimum_budget_bytes},
          {"breakdown", json_of(plan.breakdown)},
          {"step_seconds", planned.step_seconds},
          {"units_per_second", planned.tokens_per_second},
          {"unit", unit_of(job)},
          {"norms_seconds", plan.time.norms},
          {"recompute_seconds", plan.time.recompute},
          {"recompute_bound_seconds", plan.time.recompute_bound},
          {"offload_seconds", plan.time.offload},
          {"update_offload_seconds", plan.time.update_offload},
          {"host_bytes", plan.host_bytes},
          {"batches_ahead_bytes", planned.settings.batches_ahead_bytes},
          {"host_budget_bytes", plan.host_budget_bytes},
          {"disk_bytes", plan.disk_bytes},
          {"disk_budget_bytes", plan.disk_budget_bytes},
          {"elsewhere", elsewhere_json(plan)},
          {"cost_model", {{"device", planned.settings.cost.device}, {"source", planned.settings.cost.source}}},
          {"choices", choices_json(planned)},
          {"reasons", reasons_json(plan)},
          {"plan_seconds", planned.plan_seconds},
          {"record_seconds", planned.record_seconds},
          {"parameters", planned.settings.parameters},
          {"model_bytes", most_model_bytes(plan)},
          {"arena_bytes", plan.arena_bytes},
          {"live_bytes", plan.live_bytes},
          {"arena_waste", plan.arena_waste()},
          {"residents", json_of(largest_at_peak(plan, kResidentsShown))}};
}

std::string breakdown_table(const Plan& plan, bool terminal) {
  Table table({{"part"}, {"planned", Align::right}, {"bytes", Align::right}, {"share", Align::right}},
              "Memory at the peak");
  const auto add = [&](const std::string& name, int64_t bytes) {
    table.add_row({name, format_bytes(bytes), std::to_string(bytes), percent_of(bytes, plan.peak_bytes)});
  };
  for_each_part([&](const char* name, int64_t Breakdown::*part) { add(name, plan.breakdown.*part); });
  table.add_rule();
  add("peak", plan.peak_bytes);
  if (plan.budget_bytes > 0)
    table.add_row({"budget", format_bytes(plan.budget_bytes), std::to_string(plan.budget_bytes)});
  if (plan.host_budget_bytes > 0) {
    table.add_row({"host memory", format_bytes(plan.host_bytes), std::to_string(plan.host_bytes)});
    table.add_row({"host budget", format_bytes(plan.host_budget_bytes), std::to_string(plan.host_budget_bytes)});
  }
  if (plan.disk_budget_bytes > 0) {
    table.add_row({"disk", format_bytes(plan.disk_bytes), std::to_string(plan.disk_bytes)});
    table.add_row({"disk budget", format_bytes(plan.disk_budget_bytes), std::to_string(plan.disk_budget_bytes)});
  }
  return table.to_string(terminal);
}

// "12.3 ms a micro batch, 8.1 % of it; at best 12.1 ms"
std::string recomputation_of(const Plan& plan) {
  const StepTime& time = plan.time;
  return fmt::format("{} a micro batch, {:.1f} % more; no choice takes less than {}{}", short_seconds(time.recompute),
                     100 * time.recompute_share(), short_seconds(time.recompute_bound),
                     plan.host_bytes + plan.disk_bytes > 0 ? " for this and offload" : "");
}

// "adamw, state 8bit, weights stochastic, sums of gradients 8bit"
std::string optimizer_of(const Job& job, const JobSettings& settings) {
  std::string text = job.optimizer.name;
  if (settings.state_dtype != StateDtype::as_parameters)
    text += fmt::format(", state {}", name_of(settings.state_dtype));
  const bool low =
      settings.precision == Precision::bf16_true || (job.model.dtype && *job.model.dtype != DType::float32);
  if (low) text += fmt::format(", weights {}", name_of(settings.weight_update));
  if (settings.accumulator_dtype != AccumulatorDtype::as_gradients)
    text += fmt::format(", sums of gradients {}", name_of(settings.accumulator_dtype));
  return text;
}

// Weights, gradients and optimizer state at the most, over what is learned.
std::string bytes_a_parameter(const PlannedJob& planned) {
  const double count = static_cast<double>(std::max<int64_t>(planned.settings.parameters, 1));
  return fmt::format("{:.2f}: {} of weights, gradients and optimizer state at a time",
                     static_cast<double>(most_model_bytes(planned.plan)) / count,
                     format_bytes(most_model_bytes(planned.plan)));
}

std::string update_of(const Plan& plan) {
  if (plan.time.norms == 0) return "yes; a gradient lives until its parameter is updated";
  return fmt::format("yes; the norm of all gradients first: {} a step", short_seconds(plan.time.norms));
}

// "1.2 GiB of saved values, 4.1 GiB of optimizer state; waits 0.3 ms a micro batch, 12 ms an update"
std::string offload_of(const Plan& plan) {
  std::string text = fmt::format("{} of saved values, {} of optimizer state", format_bytes(plan.moved_bytes),
                                 format_bytes(plan.moved_state_bytes));
  if (plan.moved_gradient_bytes > 0) text += fmt::format(", {} of gradients", format_bytes(plan.moved_gradient_bytes));
  if (plan.moved_parameter_bytes > 0)
    text += fmt::format(", {} of parameters", format_bytes(plan.moved_parameter_bytes));
  if (plan.host_updates > 0) text += fmt::format(", {} updates on the host", plan.host_updates);
  return text + fmt::format("; waits {} a micro batch, {} an update", short_seconds(plan.time.offload),
                            short_seconds(plan.time.update_offload));
}

bool moves_any(const Plan& plan) {
  return plan.host_bytes + plan.disk_bytes > 0;
}

// "embed.weight, layers.0.mlp.up.weight, … (64 in all)"
std::string parameters_elsewhere(const Plan& plan) {
  constexpr int kMost = 4;
  std::string text;
  int count = 0;
  for (const Buffer& buffer : plan.trace.buffers) {
    if (buffer.on_device() || buffer.role != Role::parameter || !buffer.persistent) continue;
    if (++count <= kMost) text += (count > 1 ? ", " : "") + buffer.label;
  }
  return count > kMost ? fmt::format("{}, … ({} in all)", text, count) : text;
}

std::string step_table(const Job& job, const PlannedJob& planned, bool terminal) {
  const JobSettings& settings = planned.settings;
  const int64_t accumulation = first_accumulation(settings);
  Table table({{""}, {"", Align::right}}, "The step");
  table.add_row({"parameters", short_count(static_cast<double>(planned.settings.parameters))});
  table.add_row({"precision", std::string(name_of(planned.settings.precision))});
  table.add_row({"optimizer", optimizer_of(job, settings)});
  table.add_row({"bytes a parameter", bytes_a_parameter(planned)});
  table.add_row({"micro batch", samples_in_words(job, settings.micro_batch_size)});
  table.add_row({"gradient accumulation", std::to_string(accumulation)});
  if (settings.last_micro_batch > 0)
    table.add_row({"last micro batch", samples_in_words(job, settings.last_micro_batch)});
  table.add_row({"effective batch", std::to_string(settings.sequences(accumulation))});
  table.add_row({"batches prepared ahead", format_bytes(settings.batches_ahead_bytes) + " of host memory"});
  table.add_row({"operators recorded", std::to_string(planned.recorded.ops.size())});
  table.add_row({"predicted step", short_seconds(planned.step_seconds)});
  table.add_row({"predicted throughput", short_count(planned.tokens_per_second) + " " + unit_of(job) + "/s"});
  table.add_row({"predicted by", fmt::format("{} ({})", planned.settings.cost.device, planned.settings.cost.source)});
  if (planned.plan.update_in_backward) table.add_row({"update in backward", update_of(planned.plan)});
  if (planned.plan.checkpointed) table.add_row({"recomputation", recomputation_of(planned.plan)});
  if (moves_any(planned.plan)) table.add_row({"offload", offload_of(planned.plan)});
  table.add_row({"arena waste", fmt::format("{:.2f} %", 100 * planned.plan.arena_waste())});
  table.add_row({"recorded in", short_seconds(planned.record_seconds)});
  table.add_row({"planned in", short_seconds(planned.plan_seconds)});
  return table.to_string(terminal);
}

std::string frontier_table(const std::vector<FrontierPoint>& frontier, bool terminal) {
  Table table({{"budget", Align::right}, {"peak", Align::right}, {"step", Align::right}, {"choices"}},
              "Memory against predicted step time");
  for (const FrontierPoint& point : frontier)
    table.add_row({format_bytes(point.budget_bytes), format_bytes(point.peak_bytes), short_seconds(point.step_seconds),
                   point.choices});
  return table.to_string(terminal);
}

// What would fit, each planned again.
std::string advice_text(const std::vector<Advice>& advice, const Job& job) {
  if (advice.empty()) return "\nNo single change of the job that was tried would fit.\n";
  std::string text = "\nWhat would fit\n\n";
  for (const Advice& each : advice)
    text += fmt::format("{}: {} at the peak, {} a step, {} {}/s\n", each.change, format_bytes(each.peak_bytes),
                        short_seconds(each.step_seconds), short_count(each.tokens_per_second), unit_of(job));
  return text;
}

Json advice_json(const std::vector<Advice>& advice) {
  Json list = Json::array();
  for (const Advice& each : advice)
    list.push_back({{"change", each.change},
                    {"peak_bytes", each.peak_bytes},
                    {"step_seconds", each.step_seconds},
                    {"units_per_second", each.tokens_per_second}});
  return list;
}

std::string page_of(const Job& job, const PlannedJob& planned, const std::vector<FrontierPoint>& frontier) {
  PlanPage page;
  page.title = job.file.empty() ? "job" : job.file.filename().string();
  page.subtitle =
      fmt::format("{} parameters, {}, planned for {}", short_count(static_cast<double>(planned.settings.parameters)),
                  name_of(planned.settings.precision), planned.settings.cost.device);
  page.plan = &planned.plan;
  page.op_seconds.assign(planned.plan.trace.ops.size(), 0);
  for (const Segment& segment : planned.plan.trace.segments) {
    double before = 0;
    const std::vector<double> ends = end_times(planned.settings.cost, planned.plan.trace, segment.name);
    for (size_t i = 0; i < ends.size(); ++i) {
      page.op_seconds[segment.begin + i] = ends[i] - before;
      before = ends[i];
    }
  }
  page.frontier = frontier;
  page.facts = {{"micro batch", samples_in_words(job, planned.settings.micro_batch_size)},
                {"gradient accumulation", planned.settings.last_micro_batch > 0
                                              ? micro_batches_in_words(planned.settings)
                                              : std::to_string(first_accumulation(planned.settings))},
                {"predicted step", short_seconds(planned.step_seconds)},
                {"predicted throughput", short_count(planned.tokens_per_second) + " " + unit_of(job) + "/s"},
                {"predicted by", fmt::format("{} ({})", planned.settings.cost.device, planned.settings.cost.source)}};
  if (planned.plan.update_in_backward) page.facts.emplace_back("update in backward", update_of(planned.plan));
  if (planned.plan.checkpointed) page.facts.emplace_back("recomputation", recomputation_of(planned.plan));
  if (moves_any(planned.plan)) page.facts.emplace_back("offload", offload_of(planned.plan));
  if (planned.plan.moved_parameter_bytes > 0)
    page.facts.emplace_back("parameters elsewhere", parameters_elsewhere(planned.plan));
  if (planned.plan.disk_bytes > 0) page.facts.emplace_back("disk", format_bytes(planned.plan.disk_bytes));
  return to_html(page);
}

std::string text_of(const Job& job, const PlannedJob& planned, bool terminal) {
  const Plan& plan = planned.plan;
  std::string text = plan.fits ? verdict_of(plan) + "\n" : explanation_of_misfit(plan, terminal);
  text += "\n" + breakdown_table(plan, terminal) + "\n" + step_table(job, planned, terminal);
  if (!plan.reasons.empty()) text += "\nDecisions\n\n";
  for (const Reason& reason : plan.reasons) text += fmt::format("{}: {}\n", reason.decision, reason.why);
  if (plan.moved_parameter_bytes > 0)
    text += fmt::format("parameters that lie elsewhere: {}\n", parameters_elsewhere(plan));
  return text;
}

PlanTarget target_for(const PlanArguments& arguments, const Job& job, const std::string& gpu) {
  PlanTarget target = gpu.empty() ? target_of(job) : target_of(require_device(gpu));
  target.host_memory_budget = job.host_memory_budget;
  target.disk_budget = job.disk_budget;
  if (!arguments.memory.empty()) {
    target.memory_budget = parse_bytes(arguments.memory);
    if (*target.memory_budget < 1) throw UserError("--memory is 0; say how much there is, 12GiB for example");
    target.budget_reason = "as --memory says";
  } else if (!gpu.empty() && job.memory_budget && *job.memory_budget < *target.memory_budget) {
    target.memory_budget = job.memory_budget;
    target.budget_reason = "as the job says; the device has more";
  }
  return target;
}

// Which of several devices can train the job, how fast, with what settings.
int run_devices(const PlanArguments& arguments, const Job& job) {
  Table table({{"device"},
               {"memory", Align::right},
               {"fits"},
               {"peak", Align::right},
               {"least", Align::right},
               {"precision"},
               {"micro batch", Align::right},
               {"recomputed", Align::right},
               {"step", Align::right},
               {unit_of(job) + "/s", Align::right}});
  Json list = Json::array();
  bool any = false;
  for (const std::string& gpu : arguments.gpus) {
    const DeviceSpec& device = require_device(gpu);
    const PlannedJob planned = plan_job(job, target_for(arguments, job, gpu));
    const Plan& plan = planned.plan;
    any = any || plan.fits;
    std::vector<std::string> row{device.name, format_bytes(plan.budget_bytes), plan.fits ? "yes" : "no",
                                 format_bytes(plan.peak_bytes), format_bytes(plan.minimum_budget_bytes)};
    if (plan.fits) {
      const StepTime& time = plan.time;
      row.insert(row.end(), {std::string(name_of(planned.settings.precision)), micro_batches_in_words(planned.settings),
                             fmt::format("{:.1f} %", 100 * time.recompute_share()), short_seconds(planned.step_seconds),
                             short_count(planned.tokens_per_second)});
    }
    table.add_row(row);
    Json json = plan_json(job, planned);
    json["gpu"] = device.id;
    list.push_back(std::move(json));
  }
  arguments.job.output.print(table.to_string(colour_allowed(STDOUT_FILENO)));
  arguments.job.output.write({{"gpus", list}});
  return any ? kDone : kDoesNotFit;
}

int run_plan(const PlanArguments& arguments) {
  const Job job = arguments.job.read();
  arguments.job.output.require_writable();
  if (arguments.gpus.size() > 1) {
    if (!arguments.html.empty() || arguments.frontier > 0 || arguments.what_if)
      throw UserError("--html, --frontier and --what-if are of one device; name one with --gpu");
    return run_devices(arguments, job);
  }
  const PlanTarget target = target_for(arguments, job, arguments.gpus.empty() ? "" : arguments.gpus.front());
  const PlannedJob planned = plan_job(job, target);
  std::vector<FrontierPoint> frontier;
  const int points = arguments.frontier > 0 ? arguments.frontier : arguments.html.empty() ? 0 : kFrontierPoints;
  if (points > 0) frontier = frontier_of(job, target, points);
  const bool terminal = colour_allowed(STDOUT_FILENO);
  std::string text = text_of(job, planned, terminal);
  std::vector<Advice> advice;
  if (!planned.plan.fits) {
    advice = changes_that_fit(job, target);
    text += advice_text(advice, job);
  }
  if (arguments.frontier > 0) text += "\n" + frontier_table(frontier, terminal);
  if (!arguments.html.empty()) {
    write_file_atomically(arguments.html, page_of(job, planned, frontier));
    text += fmt::format("\nThe plan as a page: {}\n", arguments.html);
  }
  Json json = plan_json(job, planned);
  if (arguments.what_if) {
    Progress progress("what if", 0, progress_on_standard_error());
    const auto changes =
        model_changes(arguments.job.file, arguments.job.all_overrides(), target,
                      [&](int64_t done, int64_t of) { progress.update(done, {fmt::format("of {} planned", of)}); });
    progress.finish();
    text += "\n" + what_if_table(job, changes, terminal);
    json["what_if"] = what_if_json(changes);
  }
  arguments.job.output.print(text);
  if (points > 0) json["frontier"] = frontier_json(frontier);
  if (!planned.plan.fits) json["would_fit"] = advice_json(advice);
  arguments.job.output.write(json);
  return planned.plan.fits ? kDone : kDoesNotFit;
}

}  // namespace

void add_plan(CLI::App& app, Action& action) {
  CLI::App* command = app.add_subcommand("plan", "say whether a job fits its budget, and what fills the memory");
  const auto arguments = std::make_shared<PlanArguments>();
  arguments->job.add_to(*command);
  command->add_option("--gpu", arguments->gpus, "plan for these devices of the catalogue (plimsoll gpus lists them)")
      ->delimiter(',')
      ->allow_extra_args(false)
      ->type_name("NAME[,NAME...]");
  command->add_option("--memory", arguments->memory, "plan for so much memory, whatever the job or the device has")
      ->type_name("SIZE");
  command
      ->add_option(
          "--frontier", arguments->frontier,
          fmt::format("the best plans under POINTS budgets, from the least on ({} if not said)", kFrontierPoints))
      ->expected(0, 1)
      ->default_str(std::to_string(kFrontierPoints))
      ->check(CLI::Range(2, 1000))
      ->type_name("POINTS");
  command->add_flag("--what-if", arguments->what_if,
                    "plan again with half and a quarter of the bottleneck, the sequence, the frames, the image: what "
                    "the model's type has");
  command->add_option("--html", arguments->html, "write the plan as a page for a browser")->type_name("FILE");
  command->footer(kExamples + memory_keys_help());
  command->callback([&action, arguments] { action = [arguments] { return run_plan(*arguments); }; });
}

}  // namespace plimsoll::cli
