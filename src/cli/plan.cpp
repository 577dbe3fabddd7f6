// plimsoll plan: whether a job fits, what fills the memory, and why it was planned so. Runs no step, reads no data.
#include <fmt/format.h>
#include <unistd.h>

#include <CLI/App.hpp>
#include <memory>

#include "cli/command.h"
#include "cli/job_arguments.h"
#include "cli/plan_text.h"
#include "plimsoll/bytes.h"
#include "plimsoll/train_job.h"
#include "report/table.h"
#include "report/terminal.h"

namespace plimsoll::cli {
namespace {

constexpr const char* kExamples =
    "Examples:\n"
    "  plimsoll plan job.yaml\n"
    "  plimsoll plan job.yaml memory_budget=2GiB micro_batch_size=4\n"
    "  plimsoll plan job.yaml --json - | jq .minimum_budget_bytes\n\n";

int64_t first_accumulation(const JobSettings& settings) {
  return settings.accumulation.empty() ? 1 : settings.accumulation.begin()->second;
}

Json schedule_json(const AccumulationSchedule& schedule) {
  if (schedule.size() == 1) return schedule.begin()->second;
  Json json = Json::object();
  for (const auto& [epoch, steps] : schedule) json[std::to_string(epoch)] = steps;
  return json;
}

Json plan_json(const Job& job, const PlannedJob& planned) {
  const Plan& plan = planned.plan;
  Json reasons = Json::array();
  for (const Reason& reason : plan.reasons) reasons.push_back({{"decision", reason.decision}, {"why", reason.why}});
  return {{"fits", plan.fits},
          {"budget_bytes", plan.budget_bytes},
          {"peak_bytes", plan.peak_bytes},
          {"minimum_budget_bytes", plan.minimum_budget_bytes},
          {"breakdown", json_of(plan.breakdown)},
          {"step_seconds", nullptr},
          {"choices",
           {{"micro_batch_size", planned.settings.micro_batch_size},
            {"gradient_accumulation_steps", schedule_json(planned.settings.accumulation)},
            {"gradient_checkpointing", plan.checkpointed},
            {"precision", name_of(job.precision)}}},
          {"reasons", reasons},
          {"plan_seconds", plan.plan_seconds},
          {"record_seconds", planned.record_seconds},
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
  return table.to_string(terminal);
}

std::string step_table(const Job& job, const PlannedJob& planned, bool terminal) {
  const int64_t micro = planned.settings.micro_batch_size, accumulation = first_accumulation(planned.settings);
  Table table({{""}, {"", Align::right}}, "The step");
  table.add_row({"parameters", short_count(static_cast<double>(planned.settings.parameters))});
  table.add_row({"precision", std::string(name_of(job.precision))});
  table.add_row({"micro batch", fmt::format("{} x {} tokens", micro, job.data.sequence_length)});
  table.add_row({"gradient accumulation", std::to_string(accumulation)});
  table.add_row({"effective batch", std::to_string(micro * accumulation)});
  table.add_row({"operators recorded", std::to_string(planned.recorded.ops.size())});
  table.add_row({"arena waste", fmt::format("{:.2f} %", 100 * planned.plan.arena_waste())});
  table.add_row({"recorded in", short_seconds(planned.record_seconds)});
  table.add_row({"planned in", short_seconds(planned.plan.plan_seconds)});
  return table.to_string(terminal);
}

std::string text_of(const Job& job, const PlannedJob& planned, bool terminal) {
  const Plan& plan = planned.plan;
  std::string text = plan.fits ? verdict_of(plan) + "\n" : explanation_of_misfit(plan, terminal);
  text += "\n" + breakdown_table(plan, terminal) + "\n" + step_table(job, planned, terminal);
  if (!plan.reasons.empty()) text += "\nDecisions\n\n";
  for (const Reason& reason : plan.reasons) text += fmt::format("{}: {}\n", reason.decision, reason.why);
  return text;
}

int run_plan(const JobArguments& arguments) {
  const Job job = arguments.read();
  arguments.output.require_writable();
  const PlannedJob planned = plan_job(job);
  arguments.output.print(text_of(job, planned, colour_allowed(STDOUT_FILENO)));
  arguments.output.write(plan_json(job, planned));
  return planned.plan.fits ? kDone : kDoesNotFit;
}

}  // namespace

void add_plan(CLI::App& app, Action& action) {
  CLI::App* command = app.add_subcommand("plan", "say whether a job fits its budget, and what fills the memory");
  const auto arguments = std::make_shared<JobArguments>();
  arguments->add_to(*command);
  command->footer(kExamples + memory_keys_help());
  command->callback([&action, arguments] { action = [arguments] { return run_plan(*arguments); }; });
}

}  // namespace plimsoll::cli
