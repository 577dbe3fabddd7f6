// Implements plimsoll train: trains a job inside its budget and reports the planned and the used memory.
#include <fmt/format.h>
#include <stdlib.h>
#include <unistd.h>

#include <CLI/App.hpp>
#include <algorithm>
#include <memory>
#include <optional>

#include "base/atomic_file.h"
#include "base/process.h"
#include "base/text.h"
#include "cli/command.h"
#include "cli/job_arguments.h"
#include "cli/output.h"
#include "cli/process.h"
#include "cli/result_text.h"
#include "cli/screen/table.h"
#include "cli/screen/terminal.h"
#include "cli/train/rank_device.h"
#include "cli/train/rank_processes.h"
#include "cli/train/run_publisher.h"
#include "cli/train/train_progress.h"
#include "cli/value_checks.h"
#include "plimsoll/bytes.h"
#include "plimsoll/error.h"
#include "plimsoll/job.h"
#include "plimsoll/ranks.h"
#include "plimsoll/train_job.h"

namespace plimsoll::cli {
namespace {

constexpr const char* kTrainExamples =
    "Examples:\n"
    "  plimsoll train job.yaml\n"
    "  plimsoll train job.yaml memory_budget=2GiB checkpoint.directory=run1\n"
    "  plimsoll train job.yaml log.metrics_file=metrics.jsonl --json report.json\n"
    "  plimsoll train job.yaml --profile profile.json    for ui.perfetto.dev\n"
    "  plimsoll train job.yaml --devices 4 strategy=zero2\n"
    "\n"
    "Ctrl-C, SIGTERM or a closed terminal (SIGHUP) ends a run after its current\n"
    "step. The run saves its checkpoint, prints its report and ends by the signal:\n"
    "130, 143 or 129 in a shell. A second Ctrl-C ends it immediately.\n"
    "A full disk under the metrics or a closed pipe (| head) does not end a run. It\n"
    "does all its steps, lists the outputs that are missing and exits with 1.\n"
    "Only one run at a time writes to a checkpoint.directory or a log.metrics_file.\n"
    "A second run exits with 2.\n"
    "\n";

struct TrainArguments {
  JobArguments job;
  std::string devices;  ///< value of --devices; empty: not given
  ProfileOptions profile;
  bool check = false;
};

Json optional_json(const std::optional<double>& value) {
  return value ? Json(*value) : Json(nullptr);
}

Json metrics_json(const TrainReport& report) {
  Json metrics = Json::object();
  for (const auto& [name, value] : report.metrics) metrics[name] = value;
  return metrics;
}
Json baselines_json(const TrainReport& report) {
  Json baselines = Json::array();
  for (const auto& [metric, name, value] : report.baselines)
    baselines.push_back({{"metric", metric}, {"name", name}, {"value", value}});
  return baselines;
}

Json ranks_json(const TrainReport& report) {
  Json ranks = Json::array();
  for (const TrainReport::RankUse& rank : report.ranks)
    ranks.push_back({{"rank", ranks.size()},
                     {"host", rank.host},
                     {"planned_peak_bytes", rank.planned},
                     {"measured_peak_bytes", rank.used},
                     {"planned_host_bytes", rank.planned_host},
                     {"measured_host_bytes", rank.used_host},
                     {"resident_bytes", rank.resident},
                     {"sent_bytes", rank.bytes_sent},
                     {"exchange_seconds", rank.exchange_seconds}});
  return ranks;
}

Json process_json(const TrainReport& report) {
  Json json = json_of(report.job.process);
  json["prepared_bytes"] = report.process.prepared;
  json["first_step_bytes"] = report.process.first_step;
  json["peak_bytes"] = report.resident_bytes;
  return json;
}

Json report_json(const Job& job, const TrainReport& report) {
  const Plan& plan = report.job.plan;
  return {{"fits", report.fits},
          {"budget_bytes", plan.budget.device_bytes()},
          {"minimum_budget_bytes", report.job.minimum_budget_bytes},
          {"plan_hash", plan_hash(plan)},
          {"planned_peak_bytes", report.planned_peak_bytes},
          {"measured_peak_bytes", report.measured_peak_bytes},
          {"planned_host_bytes", plan.host_bytes},
          {"measured_host_bytes", report.used.host},
          {"planned_disk_bytes", plan.disk_bytes},
          {"measured_disk_bytes", report.used.disk},
          {"effective_batch_size", effective_batch_of(report.job.settings)},
          {"choices", choices_json(report.job)},
          {"reasons", reasons_json(plan)},
          {"breakdown", {{"planned", json_of(report.planned)}, {"measured", json_of(report.measured)}}},
          {"steps", report.steps},
          {"evaluated_samples", report.evaluated.samples},
          {"held_out_samples", report.evaluated.held_out},
          {"run_length", run_length_json(job, report.length.steps > 0 ? std::optional(report.length)
                                                                      : run_length_of(job, std::nullopt))},
          {"step_seconds", report.step_seconds},
          {"predicted_step_seconds", report.predicted_step_seconds},
          {"data_wait_seconds", report.data_wait_seconds},
          {"units_per_second", report.tokens_per_second},
          {"unit", unit_of(job)},
          {"losses", report.losses},
          {"arena_waste", plan.arena_waste()},
          {"resident_bytes", report.resident_bytes},
          {"process", process_json(report)},
          {"steps_skipped", report.steps_skipped},
          {"resumed_step", report.resumed_step},
          {"stopped", report.stopped},
          {"steps_profiled", report.steps_profiled},
          {"evaluation_loss", optional_json(report.last_evaluation)},
          {"metrics", metrics_json(report)},
          {"never_trained", report.never_trained},
          {"baselines", baselines_json(report)},
          {"left_out", report.left_out},
          {"file_notes", report.file_notes},
          {"not_written", report.not_written},
          {"device_work", device_work_json(report.device_work)},
          {"ranks", ranks_json(report)}};
}

std::string memory_table(const TrainReport& report, const Screen& screen) {
  Table table({{"part"}, {"planned", Align::right}, {"used", Align::right}}, "Memory at the peak");
  for_each_part([&](const char* name, int64_t Breakdown::*part) {
    table.add_row({name, format_bytes(report.planned.*part), format_bytes(report.measured.*part)});
  });
  table.add_rule();
  table.add_row({"total", format_bytes(report.planned_peak_bytes), format_bytes(report.measured_peak_bytes)});
  const int64_t budget = report.job.plan.budget.device_bytes();
  table.add_row({"budget", budget > 0 ? format_bytes(budget) : "none"});
  if (report.job.plan.host_bytes > 0)
    table.add_row({"host memory", format_bytes(report.job.plan.host_bytes), format_bytes(report.used.host)});
  if (report.job.plan.disk_bytes > 0)
    table.add_row({"disk", format_bytes(report.job.plan.disk_bytes), format_bytes(report.used.disk)});
  return table.to_string(screen);
}

// Returns the table of the whole process: what it was planned to have resident, and what the operating system counted.
std::string process_table(const TrainReport& report, const Screen& screen) {
  const ProcessMemory& process = report.job.process;
  Table table({{"part"}, {"planned", Align::right}, {"measured", Align::right}}, "Resident memory of the process");
  const auto measured = [](int64_t bytes) { return bytes > 0 ? format_bytes(bytes) : std::string("-"); };
  table.add_row({"program, planner, data", format_bytes(process.present), ""});
  table.add_row({"batches", format_bytes(process.later), ""});
  table.add_row({"arenas", format_bytes(process.arenas), ""});
  table.add_rule();
  table.add_row({"total", format_bytes(process.total()), ""});
  table.add_row({"after the first step", "", measured(report.process.first_step)});
  table.add_row({"peak before the first step", "", measured(report.process.prepared)});
  table.add_row({"peak", "", measured(report.resident_bytes)});
  table.add_row({"process budget", process.budget > 0 ? format_bytes(process.budget) : "none"});
  return table.to_string(screen);
}

std::string ranks_table(const TrainReport& report, const Screen& screen) {
  if (report.ranks.empty()) return "";
  Table table({{"rank", Align::right},
               {"host"},
               {"planned", Align::right},
               {"used", Align::right},
               {"resident", Align::right},
               {"sent", Align::right},
               {"in exchanges", Align::right}},
              "The ranks");
  for (size_t r = 0; r < report.ranks.size(); ++r) {
    const TrainReport::RankUse& rank = report.ranks[r];
    table.add_row({std::to_string(r), without_controls(rank.host), format_bytes(rank.planned), format_bytes(rank.used),
                   format_bytes(rank.resident), format_bytes(rank.bytes_sent), short_seconds(rank.exchange_seconds)});
  }
  return "\n" + table.to_string(screen);
}

// Returns "3.2104 -> 2.8711"; one number if there was one evaluation.
std::string course(double first, double last) {
  return first == last ? fmt::format("{:.4f}", last) : fmt::format("{:.4f} -> {:.4f}", first, last);
}

std::string run_table(const Job& job, const TrainReport& report, const Screen& screen) {
  Table table({{""}, {"", Align::right}}, "The run");
  table.add_row({"steps", std::to_string(report.steps)});
  table.add_row({"precision", std::string(name_of(report.job.settings.precision))});
  table.add_row({"effective batch", std::to_string(effective_batch_of(report.job.settings))});
  table.add_row({"micro batches", describe_micro_batches(report.job.settings)});
  if (report.resumed_step > 0) table.add_row({"steps before this run", std::to_string(report.resumed_step)});
  if (report.stopped) table.add_row({"stopped", "before the last step"});
  if (!report.left_out.empty())
    table.add_row({"samples left out (unreadable)", std::to_string(report.left_out.size())});
  if (report.steps_skipped > 0) table.add_row({"steps skipped", std::to_string(report.steps_skipped)});
  if (report.step_seconds > 0) {
    table.add_row({"median step", short_seconds(report.step_seconds)});
    if (report.predicted_step_seconds > 0) table.add_row({"  predicted", short_seconds(report.predicted_step_seconds)});
    table.add_row({"throughput", short_count(report.tokens_per_second) + " " + unit_of(job) + "/s"});
  }
  if (!report.losses.empty()) table.add_row({"loss", course(report.losses.front(), report.losses.back())});
  const auto add_baselines = [&](std::string_view metric) {
    for (const auto& baseline : report.baselines)
      if (baseline.metric == metric) table.add_row({"  " + baseline.name, fmt::format("{:.4f}", baseline.value)});
  };
  if (report.first_evaluation && report.last_evaluation) {
    table.add_row({"evaluation loss", course(*report.first_evaluation, *report.last_evaluation)});
    add_baselines("evaluation_loss");
  }
  for (const auto& [name, value] : report.metrics) {
    table.add_row({name, fmt::format("{:.4f}", value)});
    add_baselines(name);
  }
  const DeviceWork& work = report.device_work;
  if (work.captures)
    table.add_row({"captured ops", fmt::format("{} of {}, in {} sequences", work.captured_ops,
                                               work.captured_ops + work.single_ops, work.sequences)});
  std::string text = table.to_string(screen);
  const auto warn = [&](const std::string& what) { text += fold("Warning: " + what, screen.columns, 2); };
  if (work.refused_sequences > 0)
    warn(fmt::format("the device refused to capture {} sequences of ops, which run one by one; the last: {}",
                     work.refused_sequences, work.refusal));
  for (const DeviceWork::CopiedResult& each : work.copied_results)
    if (work.captures)
      warn(fmt::format("results of {} ops of {} are copied to their places, {} each time", each.ops, each.op,
                       format_bytes(each.bytes)));
  if (!report.never_trained.empty()) text += fold("Warning: " + report.never_trained, screen.columns, 2);
  return text;
}

// Returns the result of --profile as a line of text; empty if it was not requested.
std::string profile_line(const ProfileOptions& profile, const TrainReport& report) {
  if (profile.file.empty()) return "";
  if (static_cast<int64_t>(report.losses.size()) < profile.first_step)
    return fmt::format("no profile: the run ended before its step {}\n", profile.first_step);
  if (report.steps_profiled == 0) return "";  // it could not be written, which has been reported
  return fmt::format("profile of {} step{} in {}\n", report.steps_profiled, report.steps_profiled == 1 ? "" : "s",
                     without_controls(profile.file.string()));
}

std::string results_text(const Job& job, const TrainReport& report, const Screen& screen) {
  if (!report.fits && job.budget_lacks_unit) return fold(verdict_of(report.job), screen.columns, 2);
  if (!report.fits)
    return peak_report(report.job, screen) + "\n" +
           fold("To see changes of the job that fit, run 'plimsoll plan' with the same job file and settings.",
                screen.columns, 2);
  if (report.losses.empty() && report.stopped)
    return "stopped before the first step of this run: nothing was trained\n";
  if (report.losses.empty() && report.resumed_step > 0)
    return fmt::format(
        "nothing to do: all {} steps are done; {}\n", report.resumed_step,
        job.checkpoint.directory.empty()
            ? fmt::format("the checkpoint is {}", job.checkpoint.resume)
            : fmt::format("the last checkpoint is in {}", job.checkpoint.directory.lexically_normal().string()));
  return memory_table(report, screen) + "\n" + process_table(report, screen) + "\n" + run_table(job, report, screen) +
         ranks_table(report, screen);
}

const char* variable(const char* name) {
  return ::getenv(name);
}

int64_t cores() {
  return usable_cores();
}

/// The job of this process: a launcher's number of processes is its number of devices.
Job job_of(const JobArguments& arguments, const std::optional<Rendezvous>& rendezvous) {
  Job job = arguments.read_silently();
  if (!rendezvous || job.ranks.count == rendezvous->size) return job;
  if (job.ranks.count != 1)
    throw UserError(
        fmt::format("a launcher has started {} processes of this command ({}), but the job has devices: {}; remove "
                    "devices from the "
                    "job, or start {} processes",
                    rendezvous->size, launcher_said(variable), job.ranks.count, job.ranks.count));
  return arguments.read_silently({fmt::format("devices={}", rendezvous->size)});
}

/// Starts a process for each device and waits for them.
int run_ranks(const TrainArguments& all, const Job& job) {
  all.job.output.require_writable();
  require_devices(job.device, static_cast<int>(job.ranks.count));
  if (!lists_devices(job.device)) require_device_of(job);  // reported once, not by every rank
  if (job.device == "cpu" && job.ranks.count > cores())
    print_status(fmt::format("{} ranks share {} core{}: a step takes longer than with fewer ranks\n", job.ranks.count,
                             cores(), cores() == 1 ? "" : "s"));
  RankProcesses processes;
  processes.count = static_cast<int>(job.ranks.count);
  return run_rank_processes(processes);
}

/// Ends this rank, which does not notice that another one is lost: it computes, reads or writes for long.
void end_after_loss(const std::string& message) {
  remove_unfinished_files();  // of the program; the library has removed its own
  print_status(fmt::format("{}plimsoll: {}\n", is_terminal(STDERR_FILENO) ? "\r\x1b[K" : "", message));
  ::_exit(kFailed);
}

/// Trains as one rank or alone.
TrainReport trained(const Job& job, TrainObserver& observer, const TrainArguments& all,
                    const std::optional<Rendezvous>& rendezvous, const StopSignals& signals) {
  std::shared_ptr<Exchange> exchange;
  if (rendezvous) {
    // c10d prints warnings with stack traces for a store that has gone; this program has one line for it.
    ::setenv("TORCH_CPP_LOG_LEVEL", "ERROR", /*overwrite=*/0);
    Rendezvous own = *rendezvous;
    own.is_stopped = [&signals] { return signals.received() != 0; };
    own.on_lost_rank = end_after_loss;
    try {
      exchange = meet(own);
    } catch (const UserError&) {
      signals.end_as_received();
      throw;
    }
  }
  return train_job(job, observer, all.profile, std::move(exchange), all.check);
}

/// A rank that writes nothing.
int run_silent_rank(const Job& job, const TrainArguments& all, const std::optional<Rendezvous>& rendezvous,
                    const StopSignals& signals) {
  TrainObserver nobody;
  const TrainReport report = trained(job, nobody, all, rendezvous, signals);
  if (report.stopped) signals.end_as_received();
  return report.fits ? kDone : kDoesNotFit;
}

int train_or_report(const TrainArguments& all) {
  JobArguments arguments = all.job;
  if (!all.devices.empty()) arguments.overrides.insert(arguments.overrides.begin(), "devices='" + all.devices + "'");
  std::optional<Rendezvous> rendezvous = rendezvous_of_environment();
  Job job = job_of(arguments, rendezvous);
  if (all.check && job.device != "cpu")
    throw UserError(
        fmt::format("--check: device is {}; allowed: cpu; set device=cpu, or leave --check out", job.device));
  const bool silent = rendezvous && rendezvous->rank > 0;
  if (!silent) {
    arguments.require_outputs_apart(job, {{"--profile", all.profile.file}, {"log.metrics_file", job.log.metrics_file}});
    if (!rendezvous && job.ranks.count > 1) return run_ranks(all, job);
    JobArguments::say_notes(job);
    arguments.output.require_writable();
  }
  if (rendezvous) {
    rendezvous->device = job.device;
    job.threads = threads_of_rank(job.threads, *rendezvous, cores(), variable);
    choose_device_of_rank(job.device, rendezvous->local_rank, rendezvous->local_size);
  }
  require_device_of(job);
  const Screen screen = screen_of(STDOUT_FILENO);
  ignore_sigpipe();
  // Processes that run_ranks() started get each signal from it, once.
  StopSignals signals({}, ::getenv(kRanksVariable) != nullptr ? ::getppid() : 0);
  if (silent) return run_silent_rank(job, all, rendezvous, signals);
  TrainProgressView view(job, signals);
  TrainReport report = [&] {
    RunPublisher published(job, view);
    TrainReport done = trained(job, published, all, rendezvous, signals);
    published.ended(done);
    return done;
  }();
  view.finish();
  // The training is saved by now: if one output of the report fails, the others are still written.
  const auto attempt = [&](const auto& write) {
    try {
      write();
    } catch (const UserError& error) {
      report.not_written.emplace_back(error.what());
    }
  };
  attempt([&] { arguments.output.print(results_text(job, report, screen)); });
  // A log that has only one of the streams has the verdict.
  if (!report.fits && (arguments.output.target() == "-" || !is_terminal(STDOUT_FILENO)))
    print_status(verdict_of(report.job) + "\n");
  print_status(profile_line(all.profile, report));
  if (!report.checked_ops.empty()) print_status(report.checked_ops + "\n");
  for (const std::string& note : {report.prediction_notes, report.data_note})
    if (!note.empty()) print_status(fold(note, screen_of(STDERR_FILENO).columns, 2));
  attempt([&] { arguments.output.write(report_json(job, report)); });
  for (const std::string& each : report.not_written)
    print_status(fmt::format("not written: {}\n", without_controls(each)));
  if (report.stopped) signals.end_as_received();
  if (!report.fits) return kDoesNotFit;
  if (report.not_written.empty()) return kDone;
  const bool lost = std::ranges::any_of(
      report.not_written, [](const std::string& each) { return each.starts_with("the checkpoint of step "); });
  const std::string done = report.stopped ? fmt::format("the run ended after step {}", report.steps)
                                          : fmt::format("all {} steps are done{}", report.steps,
                                                        lost || job.checkpoint.directory.empty() ? "" : " and saved");
  throw UserError(
      done + ", but some outputs could not be written (listed above); free disk space or change their paths",
      UserError::Kind::failure);
}

int run_train(const TrainArguments& all) {
  try {
    return train_or_report(all);
  } catch (const BudgetUnavailable& error) {
    // The reason comes first, as the verdict of a plan does.
    print_status(fmt::format("plimsoll: {}\n", without_controls(error.what())));
    print_changes_within(error.budget(), all.job, screen_of(STDOUT_FILENO));
    return kFailed;
  }
}

}  // namespace

void add_train(CLI::App& app, Action& action) {
  CLI::App* command = app.add_subcommand("train", "train a job inside its memory budget");
  const auto arguments = std::make_shared<TrainArguments>();
  arguments->job.add_to(*command);
  command
      ->add_option(
          "--devices,--ranks,--num_gpus,--num-gpus,--nproc_per_node,--nproc-per-node", arguments->devices,
          "devices: train on N devices of this machine, with a process for each; device=cpu: N processes share "
          "the cores. For several machines use a launcher such as torchrun")
      ->option_text("N")
      ->check(not_empty());
  command
      ->add_option(
          "--profile", arguments->profile.file,
          "write the times of all ops and copies of a few steps to FILE, for ui.perfetto.dev or chrome://tracing; "
          "costs about 0.1 us per op in these steps and about 300 bytes of FILE per op and step")
      ->type_name("FILE")
      ->check(names_a_file());
  add_number_option(*command, "--profile-steps", 1, arguments->profile.steps,
                    "number of steps in the profile, from the second step of this run on")
      ->type_name("N")
      ->needs("--profile")
      ->default_str(std::to_string(ProfileOptions().steps));
  command->add_flag(
      "--check", arguments->check,
      "device=cpu: run each op twice with other bytes around its operands, and end with the name of one that reads "
      "or writes outside of its planned places; same losses, steps 10 to 50 times slower, the arena's bytes twice");
  command->footer(kTrainExamples + memory_keys_help());
  command->callback([&action, arguments] { action = [arguments] { return run_train(*arguments); }; });
}

}  // namespace plimsoll::cli
