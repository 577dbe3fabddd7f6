// plimsoll monitor: what runs on this machine, as a table that is drawn anew.
#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <CLI/App.hpp>
#include <chrono>
#include <csignal>
#include <iostream>
#include <map>
#include <memory>
#include <thread>

#include "cli/command.h"
#include "cli/json_output.h"
#include "cli/plan_text.h"
#include "cli/stop_signals.h"
#include "cli/value_checks.h"
#include "device/utilisation.h"
#include "plimsoll/bytes.h"
#include "plimsoll/error.h"
#include "report/progress.h"
#include "report/run_status.h"
#include "report/table.h"
#include "report/terminal.h"

namespace plimsoll::cli {
namespace {

constexpr const char* kExamples =
    "Examples:\n"
    "  plimsoll monitor                       every run of yours on this machine, drawn anew each second; Ctrl-C ends "
    "it\n"
    "  plimsoll monitor --once                once, for a log or a script\n"
    "  plimsoll monitor --once --json -       the same for machines\n"
    "\n"
    "A run says what it does in $XDG_RUNTIME_DIR/plimsoll, or /tmp/plimsoll-UID where that is not set; both are looked "
    "at,\n"
    "and /run/user/UID/plimsoll. $PLIMSOLL_RUNTIME_DIR, an absolute path, stands for all of them.\n";

constexpr size_t kBarWidth = 30;
constexpr double kLongestSilence = 10;  ///< seconds: a run tells of itself every half second, and after each step
constexpr double kLeastInterval = 0.1, kMostInterval = 3600;

struct MonitorArguments {
  double interval = 1;
  bool once = false;
  Output output;
};

/// What a look at the machine gives; rates need two looks.
struct Look {
  double at = 0;
  std::optional<ProcessorTime> processors;
  std::map<int64_t, double> seconds_of;  ///< processor time by process
};

struct RunView {
  RunStatus status;
  std::optional<int64_t> resident;
  std::optional<double> cores;  ///< that it keeps busy
};

struct View {
  std::vector<RunView> runs;
  std::vector<GpuUse> gpus;
  std::optional<MemoryOfMachine> memory;
  std::optional<double> busy;  ///< of all processors, [0, 1]
};

double seconds_now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

double seconds_since_1970() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

View look(Look& last) {
  Look now{seconds_now(), processor_time(), {}};
  View view;
  view.gpus = gpus_in_use();
  view.memory = memory_of_machine();
  if (now.processors && last.processors && now.processors->total > last.processors->total)
    view.busy = 1 - (now.processors->idle - last.processors->idle) / (now.processors->total - last.processors->total);
  for (RunStatus& status : live_runs(runtime_folders())) {
    RunView run{std::move(status), std::nullopt, std::nullopt};
    const int64_t pid = run.status.pid;
    run.resident = resident_bytes_of(pid);
    if (const auto seconds = processor_seconds_of(pid)) {
      now.seconds_of[pid] = *seconds;
      if (const auto before = last.seconds_of.find(pid); before != last.seconds_of.end() && now.at > last.at)
        run.cores = (*seconds - before->second) / (now.at - last.at);
    }
    view.runs.push_back(std::move(run));
  }
  last = std::move(now);
  return view;
}

std::string bar(int64_t part, int64_t whole) {
  const double share = whole > 0 ? std::clamp(static_cast<double>(part) / static_cast<double>(whole), 0.0, 1.0) : 0;
  const auto full = static_cast<size_t>(share * kBarWidth + 0.5);
  return "[" + std::string(full, '=') + std::string(kBarWidth - full, ' ') + "]";
}

std::string of_all(int64_t part, int64_t whole) {
  if (whole <= 0) return format_bytes(part);
  return fmt::format("{} of {} ({:.0f} %)", format_bytes(part), format_bytes(whole),
                     100.0 * static_cast<double>(part) / static_cast<double>(whole));
}

std::string run_text(const RunView& run, bool terminal) {
  const RunStatus& status = run.status;
  Table table({{""}, {""}}, fmt::format("{}, process {}", status.job.empty() ? "a job" : status.job, status.pid));
  std::string step = fmt::format("{} of {}", status.step, status.max_steps);
  if (status.state != "training") step += ", " + status.state;
  table.add_row({"step", step});
  if (status.step > 0) {
    table.add_row({"loss", fmt::format("{:.4f}", status.loss)});
    table.add_row({"rate", fmt::format("{} {}/s, {} a step", short_count(status.units_per_second), status.unit,
                                       short_seconds(status.step_seconds))});
    table.add_row({"time left, about",
                   format_duration(static_cast<double>(status.max_steps - status.step) * status.step_seconds)});
  }
  const double silent = seconds_since_1970() - status.updated;
  if (silent > kLongestSilence + 2 * status.step_seconds)
    table.add_row({"last heard of", format_duration(silent) + " ago"});
  const int64_t whole = status.budget_bytes > 0 ? status.budget_bytes : status.planned_bytes;
  table.add_row({"device memory used", bar(status.used_bytes, whole) + " " + of_all(status.used_bytes, whole)});
  table.add_row({"planned peak", bar(status.planned_bytes, whole) + " " + of_all(status.planned_bytes, whole)});
  for (const RoleBytes& role : status.roles)
    table.add_row({"  " + role.role, bar(role.planned, whole) + " " + of_all(role.planned, whole)});
  if (status.host_planned_bytes > 0)
    table.add_row({"host memory planned", of_all(status.host_planned_bytes, status.host_budget_bytes)});
  if (run.resident) table.add_row({"resident memory of the process", format_bytes(*run.resident)});
  if (run.cores) table.add_row({"processor cores busy", fmt::format("{:.1f}", *run.cores)});
  return table.to_string(terminal);
}

std::string text_of(const View& view, bool terminal) {
  Table machine({{""}, {""}}, "This machine");
  if (view.memory) {
    const int64_t used = view.memory->total - view.memory->available;
    machine.add_row({"memory", bar(used, view.memory->total) + " " + of_all(used, view.memory->total)});
  }
  if (view.busy) machine.add_row({"processors", fmt::format("{:.0f} % busy", 100 * *view.busy)});
  for (const GpuUse& gpu : view.gpus) {
    machine.add_row(
        {gpu.name, bar(gpu.memory_used, gpu.memory_total) + " " + of_all(gpu.memory_used, gpu.memory_total)});
    if (gpu.busy) machine.add_row({"  busy, by " + gpu.source, fmt::format("{:.0f} %", 100 * *gpu.busy)});
  }
  if (view.gpus.empty()) machine.add_row({"GPUs", "none that NVML or ROCm SMI shows"});
  std::string text = machine.to_string(terminal);
  if (view.runs.empty()) text += "\nno run of yours is under way\n";
  for (const RunView& run : view.runs) text += "\n" + run_text(run, terminal);
  return text;
}

template <typename Value>
Json optional_json(const std::optional<Value>& value) {
  return value ? Json(*value) : Json(nullptr);
}

Json json_of(const View& view) {
  Json gpus = Json::array(), runs = Json::array();
  for (const GpuUse& gpu : view.gpus)
    gpus.push_back({{"name", gpu.name},
                    {"memory_total_bytes", gpu.memory_total},
                    {"memory_used_bytes", gpu.memory_used},
                    {"busy", optional_json(gpu.busy)},
                    {"source", gpu.source}});
  for (const RunView& run : view.runs) {
    const RunStatus& status = run.status;
    Json roles = Json::object();
    for (const RoleBytes& role : status.roles) roles[role.role] = role.planned;
    runs.push_back({{"pid", status.pid},
                    {"job", status.job},
                    {"device", status.device},
                    {"state", status.state},
                    {"step", status.step},
                    {"max_steps", status.max_steps},
                    {"epoch", status.epoch},
                    {"loss", status.loss},
                    {"learning_rate", status.learning_rate},
                    {"units_per_second", status.units_per_second},
                    {"unit", status.unit},
                    {"step_seconds", status.step_seconds},
                    {"started", status.started},
                    {"updated", status.updated},
                    {"budget_bytes", status.budget_bytes},
                    {"planned_bytes", status.planned_bytes},
                    {"used_bytes", status.used_bytes},
                    {"planned_by_role", roles},
                    {"host_planned_bytes", status.host_planned_bytes},
                    {"resident_bytes", optional_json(run.resident)},
                    {"cores_busy", optional_json(run.cores)}});
  }
  Json memory = nullptr;
  if (view.memory) memory = {{"total_bytes", view.memory->total}, {"available_bytes", view.memory->available}};
  return {{"memory", memory}, {"processors_busy", optional_json(view.busy)}, {"gpus", gpus}, {"runs", runs}};
}

// Two looks a moment apart: rates are of the time between.
constexpr double kFirstLookSeconds = 0.2;

void wait(double seconds, const StopSignals& signals) {
  const double until = seconds_now() + seconds;
  while (signals.received() == 0 && seconds_now() < until)
    std::this_thread::sleep_for(std::chrono::duration<double>(std::min(0.05, until - seconds_now())));
}

int run_monitor(const MonitorArguments& arguments) {
  if (arguments.output.json_wanted() && !arguments.once)
    throw UserError("--json is of one look: write --once --json FILE");
  if (!runtime_folder())
    throw UserError("there is no runtime folder that is yours alone: set XDG_RUNTIME_DIR to one",
                    UserError::Kind::failure);
  arguments.output.require_writable();
  const StopSignals signals;
  const bool terminal = colour_allowed(STDOUT_FILENO), redrawn = is_terminal(STDOUT_FILENO) && !arguments.once;
  Look last;
  look(last);
  wait(kFirstLookSeconds, signals);
  while (signals.received() == 0) {
    const View view = look(last);
    if (redrawn) print_result("\x1b[H\x1b[2J");
    arguments.output.print(text_of(view, terminal));
    if (arguments.once) {
      arguments.output.write(json_of(view));
      return kDone;
    }
    if (!redrawn) print_result("\n");
    wait(arguments.interval, signals);
  }
  return kDone;  // ended by whoever watched
}

}  // namespace

void add_monitor(CLI::App& app, Action& action) {
  CLI::App* command = app.add_subcommand("monitor", "watch runs: memory by role against the budget, rate, devices");
  const auto arguments = std::make_shared<MonitorArguments>();
  command->add_option("--interval", arguments->interval, "seconds between two looks")
      ->check(between(kLeastInterval, kMostInterval))
      ->capture_default_str();
  command->add_flag("--once", arguments->once, "look once and end");
  arguments->output.add_option_to(*command);
  command->footer(kExamples);
  command->callback([&action, arguments] { action = [arguments] { return run_monitor(*arguments); }; });
}

}  // namespace plimsoll::cli
