// Implements plimsoll plan: whether a job fits, the memory at the peak, and the reasons of the plan. Runs no step, and
// reads no more of the data than the first bytes of texts.
#include <fmt/format.h>
#include <unistd.h>

#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <algorithm>
#include <chrono>
#include <memory>
#include <optional>
#include <utility>

#include "base/atomic_file.h"
#include "base/text.h"
#include "cli/command.h"
#include "cli/job_arguments.h"
#include "cli/output.h"
#include "cli/plan/pass_dump.h"
#include "cli/plan/plan_advice.h"
#include "cli/plan/plan_devices.h"
#include "cli/plan/plan_output.h"
#include "cli/process.h"
#include "cli/result_text.h"
#include "cli/screen/progress.h"
#include "cli/screen/terminal.h"
#include "cli/value_checks.h"
#include "plimsoll/bytes.h"
#include "plimsoll/devices.h"
#include "plimsoll/error.h"
#include "plimsoll/job.h"
#include "plimsoll/run_length.h"
#include "plimsoll/train_job.h"

namespace plimsoll::cli {
namespace {

constexpr const char* kPlanExamples =
    "Examples:\n"
    "  plimsoll plan job.yaml\n"
    "  plimsoll plan job.yaml memory_budget=2GiB micro_batch_size=4\n"
    "  plimsoll plan job.yaml --gpu a6000 --frontier\n"
    "  plimsoll plan job.yaml --gpu rtx3060-12gb,rtx4090,l40s   compare three GPUs\n"
    "  plimsoll plan job.yaml --gpu a6000 --devices 8           one of 8 devices\n"
    "  plimsoll plan job.yaml --gpu a6000 --devices 1,2,4,8     compare numbers of devices\n"
    "  plimsoll plan job.yaml --memory 12GiB --html plan.html\n"
    "  plimsoll plan job.yaml --recipe saving --gpu l40s        keys for low memory\n"
    "  plimsoll plan job.yaml --gpu l40s --what-if              smaller sizes\n"
    "  plimsoll plan job.yaml --gpu rtx3070 --advice full       search without limit\n"
    "  plimsoll plan job.yaml --by module                       bytes by model part\n"
    "  plimsoll plan job.yaml --dump-passes passes              the trace after each pass\n"
    "  plimsoll plan job.yaml --json - | jq .minimum_budget_bytes\n"
    "\n";

// If planning takes longer, the verdict is printed before it ends, as soon as it is known.
constexpr double kQuickSeconds = 1;

// Default number of points of a frontier.
constexpr int kFrontierPoints = 13;

struct PlanArguments {
  JobArguments job;
  std::vector<std::string> gpus;
  RankArguments ranks;
  std::string memory;
  std::string html;
  std::string dump_passes;
  int frontier = 0;
  std::string advice = "fast";
  std::string by;
  bool what_if = false;
  std::optional<double> what_if_seconds;
};

int64_t devices_of(const PlanArguments& arguments, const Job& job) {
  return arguments.ranks.counts.empty() ? job.ranks.count : arguments.ranks.counts.front();
}

PlanTarget target_for(const PlanArguments& arguments, const Job& job, const std::string& gpu, int64_t devices) {
  Job of_one = job;
  of_one.ranks.count = 1;
  PlanTarget target = gpu.empty() ? target_of(of_one) : target_of(require_device(gpu));
  target = arguments.ranks.target_for(std::move(target), devices);
  target.budget.host = job.budget.host;
  target.budget.disk = job.budget.disk;
  if (!arguments.memory.empty()) {
    try {
      target.budget.device = parse_bytes(arguments.memory);
    } catch (const UserError& error) {
      throw UserError(fmt::format("--memory: {}", error.what()));
    }
    if (*target.budget.device < 1)
      throw UserError("--memory is 0; allowed: an amount of at least 1 byte, for example 12GiB");
    // 9999 bytes train nothing.
    if (arguments.memory.size() <= 4 && arguments.memory.find_first_not_of("0123456789") == std::string::npos)
      throw UserError(
          fmt::format("--memory {0} is {0} bytes; write the unit, for example --memory {0}GiB", arguments.memory));
    target.budget_reason = "set by --memory";
    std::erase_if(target.notes, [](const Reason& note) { return note.decision == kBudgetNote; });
  } else if (!gpu.empty() && job.budget.device && *job.budget.device < *target.budget.device) {
    target.budget.device = job.budget.device;
    target.budget_reason = "set in the job; the device has more";
  }
  if (!gpu.empty() && job.budget.process)
    target.notes.push_back(
        {"process_budget", "it is planned on the machine that trains, where the process is measured"});
  return target;
}

// Returns the target with the budget of the first device of --gpu, if the job has a budget of its own; nullopt if it
// has none, or if --gpu is not given or --memory is.
std::optional<PlanTarget> without_job_budget(const PlanArguments& arguments, const Job& job) {
  if (arguments.gpus.empty() || !arguments.memory.empty() || !job.budget.device) return {};
  Job open = job;
  open.budget.device.reset();
  return target_for(arguments, open, arguments.gpus.front(), devices_of(arguments, job));
}

// Prints a note for missing data. A plan reads no data, but a misspelled name should be reported before the training.
void note_missing_data(const Job& job) {
  std::vector<MissingFile> missing = missing_data(job);
  // If the plan needs the tokenizer's file, planning itself reports it.
  std::erase_if(missing, [](const MissingFile& each) { return each.key == "data.tokenizer_file"; });
  if (missing.empty()) return;
  print_status(
      without_controls(fmt::format("{}: {} does not exist{}; the plan does not need it, training does: {}",
                                   missing.front().key, missing.front().file.lexically_normal().string(),
                                   missing.size() == 1 ? "" : fmt::format(" ({} files are missing)", missing.size()),
                                   remedy_for(job, missing.front()))) +
      "\n");
}

// Refuses data that the training would refuse. A plan for another device, where the data may be others, notes it only.
void note_wrong_data(const PlanArguments& arguments, const Job& job) {
  try {
    look_at_data(job);
  } catch (const UserError& error) {
    if (arguments.gpus.empty()) throw;
    print_status(without_controls(fmt::format("{}; the plan does not need it, training does", error.what())) + "\n");
  }
}

int run_plan_for_several(const PlanArguments& arguments, const Job& job) {
  if (!arguments.html.empty() || arguments.frontier > 0 || arguments.what_if || !arguments.by.empty() ||
      !arguments.dump_passes.empty())
    throw UserError(
        "--html, --frontier, --by, --what-if and --dump-passes are of one plan; name only one GPU with --gpu and one "
        "number with --devices");
  const bool counts = arguments.ranks.counts.size() > 1;
  if (counts && arguments.gpus.size() > 1)
    throw UserError("--gpu and --devices both have several values; compare either GPUs or numbers of devices");
  const Screen screen = screen_of(STDOUT_FILENO);
  const DevicesReport report = [&] {
    const Waiting waiting("planning");
    if (counts) {
      const std::string gpu = arguments.gpus.empty() ? "" : arguments.gpus.front();
      return plan_rank_counts(
          job, arguments.ranks.counts, [&](int64_t devices) { return target_for(arguments, job, gpu, devices); },
          screen);
    }
    return plan_devices(
        job, arguments.gpus,
        [&](const std::string& gpu) { return target_for(arguments, job, gpu, devices_of(arguments, job)); }, screen);
  }();
  arguments.job.output.print(report.table);
  arguments.job.output.write({{counts ? "device_counts" : "gpus", report.json}});
  return report.fits ? kDone : kDoesNotFit;
}

// Prints each result as soon as it is known, before the next search.
int run_plan(const PlanArguments& arguments) {
  const auto start = std::chrono::steady_clock::now();
  // One number is read as the key, so that batch_size has the same meaning as with train --devices.
  JobArguments with_devices = arguments.job;
  if (arguments.ranks.counts.size() == 1)
    with_devices.overrides.insert(with_devices.overrides.begin(),
                                  fmt::format("devices={}", arguments.ranks.counts.front()));
  const Job job = with_devices.read();
  arguments.job.require_outputs_apart(job, {{"--html", arguments.html}});
  require_folder_apart({"--dump-passes", arguments.dump_passes}, is_pass_file,
                       {{"--html", arguments.html}, {"--json", arguments.job.output.target()}}, arguments.job.file,
                       job);
  arguments.job.output.require_writable();
  require_writable({"--html", arguments.html});
  if (!arguments.dump_passes.empty()) require_folder_possible({"--dump-passes", arguments.dump_passes});
  note_missing_data(job);
  note_wrong_data(arguments, job);
  if (arguments.gpus.size() > 1 || arguments.ranks.counts.size() > 1) return run_plan_for_several(arguments, job);
  PlanTarget target =
      target_for(arguments, job, arguments.gpus.empty() ? "" : arguments.gpus.front(), devices_of(arguments, job));
  const auto elapsed = [&] { return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count(); };
  const Screen screen = screen_of(STDOUT_FILENO);
  ptrdiff_t lines = 0;
  const auto print = [&](const std::string& text) {
    lines += std::ranges::count(text, '\n');
    arguments.job.output.print(text);
  };
  auto waiting = std::make_optional<Waiting>("planning");
  std::optional<int64_t> enough;  // bytes of a plan that fits; empty after they were printed
  const auto print_early = [&] {
    if (!enough || elapsed() < kQuickSeconds) return;
    waiting.reset();  // erases its line
    print(fold(early_verdict_of(*enough, *target.budget.device), screen.columns, 2));
    waiting.emplace("searching for the fastest plan");
    enough.reset();
  };
  SearchOptions search;
  search.on_schedule = [&, schedules = 0]() mutable {
    print_early();
    if (++schedules > 1) waiting->say(fmt::format("schedule {}", schedules));
  };
  search.on_fit = [&](int64_t bytes) {
    enough = bytes;
    print_early();
  };
  const PlannedJob planned = plan_job(job, target, search);
  waiting.reset();
  // Operators may have been timed again: all further plans use the new times.
  target.cost = planned.settings.cost;
  // They have the arena that the process budget left to this one, whatever this command keeps of its searches.
  if (planned.process.budget > 0) {
    target.budget.process.reset();
    if (target.device == "cpu") target.budget.device = planned.plan.budget.device;
  }
  Json json = plan_json(job, planned);
  const std::optional<RunLength> length = run_length_of(job, known_training_samples(job));
  json["run_length"] = run_length_json(job, length);
  // A unit was probably left out, so the rest is about another job.
  const bool verdict_alone = !planned.plan.fits && job.budget_lacks_unit;
  print(verdict_alone ? fold(verdict_of(planned), screen.columns, 2)
                      : plan_text(job, planned, describe_run_length(job, length), screen));
  if (!arguments.by.empty()) {
    print("\n" + modules_table(planned.plan, screen));
    json["by_module"] = modules_json(planned.plan);
  }
  if (!arguments.dump_passes.empty()) {
    PassDump dump = dump_passes(planned, arguments.dump_passes, screen);
    print("\n" + dump.table);
    json["passes"] = std::move(dump.json);
  }
  bool interrupted = false;
  if (!planned.plan.fits) {
    FoundAdvice advice;
    const AdviceTime time = advice_time_of(arguments.advice);
    if (time.wanted && !verdict_alone) {
      advice = advice_within(time, elapsed(), arguments.job.file, arguments.job.all_overrides(), target, planned,
                             without_job_budget(arguments, job));
      print(advice_text(advice, job, screen));
    } else {
      advice.search.ended_early = true;
      advice.limit_seconds = 0;
    }
    interrupted = advice.interrupted;
    json["would_fit"] = advice_json(advice.search);
    json["would_fit_search"] = advice_search_json(advice);
  }
  const int points = interrupted              ? 0
                     : arguments.frontier > 0 ? arguments.frontier
                     : arguments.html.empty() ? 0
                                              : kFrontierPoints;
  if (points > 0) {
    std::vector<FrontierPoint> frontier;
    {
      const Waiting waiting_for_points("planning for other budgets");
      frontier = frontier_of(job, target, points);
    }
    if (arguments.frontier > 0) print("\n" + frontier_table(frontier, screen));
    json["frontier"] = frontier_json(frontier);
    if (!arguments.html.empty()) {
      write_file_atomically(arguments.html, plan_page(job, planned, frontier));
      print(fmt::format("\nPlan page: {}\n", arguments.html));
    }
  }
  std::optional<StopSignals> signals;
  if (arguments.what_if && !interrupted) {
    signals.emplace("stopping; the changes planned so far follow; press Ctrl-C again to stop immediately");
    const WhatIf found = what_if(arguments.job.file, arguments.job.all_overrides(), target, planned,
                                 arguments.what_if_seconds, *signals);
    print("\n" + what_if_table(job, found, screen));
    json["what_if"] = what_if_json(found);
    json["what_if_not_planned"] = found.changes.untried;
  }
  // The verdict is first. If the terminal has fewer lines than the output, it shows only the end, so the verdict is
  // repeated.
  if (static_cast<size_t>(lines) >= screen.lines) print("\n" + fold(verdict_of(planned), screen.columns, 2));
  arguments.job.output.write(json);
  if (signals) signals->end_as_received();
  return planned.plan.fits ? kDone : kDoesNotFit;
}

}  // namespace

void add_plan(CLI::App& app, Action& action) {
  CLI::App* command = app.add_subcommand("plan", "check whether a job fits its budget and show what uses the memory");
  const auto arguments = std::make_shared<PlanArguments>();
  arguments->job.add_to(*command);
  command->add_option("--gpu", arguments->gpus, "plan for these devices of the catalogue (list: plimsoll gpus)")
      ->delimiter(',')
      ->allow_extra_args(false)
      ->type_name("NAME[,NAME...]")
      ->check(not_empty());
  arguments->ranks.add_to(*command);
  command
      ->add_option("--memory", arguments->memory,
                   "plan for a budget of SIZE bytes instead of that of the job or the device: 12GiB")
      ->type_name("SIZE")
      ->check(not_empty());
  command
      ->add_option("--frontier", arguments->frontier,
                   fmt::format("show the fastest plans for POINTS budgets, from the minimum budget up (default {})",
                               kFrontierPoints))
      ->expected(0, 1)
      ->default_str(std::to_string(kFrontierPoints))
      ->check(CLI::Validator(
          [](std::string& given) {
            return CLI::Range(2, 1000)(given).empty()
                       ? std::string()
                       : "POINTS is a number from 2 to 1000; " + in_quotes(given) +
                             " is none (what comes before --frontier is not taken for it)";
          },
          "[2 - 1000]"))
      ->type_name("POINTS");
  command
      ->add_option("--advice", arguments->advice,
                   "time to search for changes that make the job fit: none; fast: until 10 s after the start; full: "
                   "until four changes are found or all were tried; or a number of seconds")
      ->default_str("fast")
      ->type_name("none|fast|full|SECONDS")
      ->check(CLI::Validator(problem_of_advice_time, ""));
  command->add_option("--by", arguments->by, "show the memory at the peak by module of the model as well")
      ->type_name("module")
      ->check(CLI::Validator(
          [](std::string& given) {
            return given == "module" ? std::string() : "--by takes module, and not " + in_quotes(given);
          },
          ""));
  command->add_flag(
      "--what-if", arguments->what_if,
      "plan the job with half and a quarter of the sizes that its model type has: sequence, frames, image, bottleneck");
  command
      ->add_option(
          "--what-if-seconds", arguments->what_if_seconds,
          "with --what-if: time limit in seconds; default: three times the planning time of the job, at least 10 s")
      ->check(between(0.001, 1e6))
      ->needs("--what-if")
      ->type_name("SECONDS");
  command->add_option("--html", arguments->html, "write the plan as an HTML page")
      ->type_name("FILE")
      ->check(names_a_file());
  command
      ->add_option("--dump-passes", arguments->dump_passes,
                   "list the passes that made the plan, and write the trace after each pass that changed it to a text "
                   "file in DIR")
      ->type_name("DIR")
      ->check(names_a_file());
  command->footer(kPlanExamples + memory_keys_help());
  command->callback([&action, arguments] { action = [arguments] { return run_plan(*arguments); }; });
}

}  // namespace plimsoll::cli
