// Implements plimsoll monitor: shows the runs on this machine as a table that is redrawn.
#include <fmt/format.h>
#include <unistd.h>
#include <CLI/App.hpp>

#include <chrono>
#include <csignal>
#include <map>
#include <memory>
#include <thread>

#include "base/measurement.h"
#include "cli/command.h"
#include "cli/monitor_screen.h"
#include "cli/output.h"
#include "cli/process.h"
#include "cli/run_status.h"
#include "cli/screen/terminal.h"
#include "cli/utilization.h"
#include "cli/value_checks.h"
#include "plimsoll/error.h"

namespace plimsoll::cli {
namespace {

constexpr const char* kMonitorExamples =
    "Examples:\n"
    "  plimsoll monitor                   show your runs each second, until Ctrl-C\n"
    "  plimsoll monitor --once            print once, for a log or a script\n"
    "  plimsoll monitor --once --json -   print once as JSON\n"
    "\n"
    "A run that has taken a step is shown for 10 minutes after its end, with its\n"
    "last step and loss: finished, stopped or failed.\n"
    "A run writes its status to $XDG_RUNTIME_DIR/plimsoll, or to /tmp/plimsoll-UID\n"
    "if that variable is not set. The monitor reads both folders and\n"
    "/run/user/UID/plimsoll. $PLIMSOLL_RUNTIME_DIR, an absolute path, replaces all\n"
    "of them.\n";

constexpr double kMinInterval = 0.1, kMaxInterval = 3600;

struct MonitorArguments {
  double interval = 1;
  bool once = false;
  Output output;
};

/// A sample of the machine's counters; rates need two samples.
struct Look {
  double at = 0;
  std::optional<ProcessorTime> processors;
  std::map<int64_t, double> seconds_of;  ///< seconds of processor time, by process
};

MonitorView look(Look& last) {
  Look now{seconds_now(), processor_time(), {}};
  MonitorView view;
  view.gpus = gpus_in_use();
  view.memory = memory_of_machine();
  if (now.processors && last.processors && now.processors->total > last.processors->total)
    view.busy = 1 - (now.processors->idle - last.processors->idle) / (now.processors->total - last.processors->total);
  for (RunStatus& status : listed_runs(runtime_folders(), seconds_since_1970())) {
    RunView run{std::move(status), std::nullopt, std::nullopt};
    if (is_ended(run.status)) {  // another process may have its number by now
      view.runs.push_back(std::move(run));
      continue;
    }
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

template <typename Value>
Json optional_json(const std::optional<Value>& value) {
  return value ? Json(*value) : Json(nullptr);
}

Json json_of(const MonitorView& view) {
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
    Json ranks = Json::array();
    for (const RankStatus& rank : status.ranks)
      ranks.push_back({{"rank", ranks.size()},
                       {"host", rank.host},
                       {"pid", rank.pid},
                       {"planned_bytes", rank.planned_bytes},
                       {"used_bytes", rank.used_bytes},
                       {"exchange_seconds", rank.exchange_seconds},
                       {"exchange_share", exchange_share(rank)}});
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
                    {"cores_busy", optional_json(run.cores)},
                    {"ranks", ranks}});
  }
  Json memory = nullptr;
  if (view.memory) memory = {{"total_bytes", view.memory->total}, {"available_bytes", view.memory->available}};
  return {{"memory", memory}, {"processors_busy", optional_json(view.busy)}, {"gpus", gpus}, {"runs", runs}};
}

// Returns text that overwrites the old one in place. No line is cleared before it is written, so that nothing flickers.
std::string redrawing(const std::string& text) {
  std::string all = "\x1b[H";
  for (const char c : text) all += c == '\n' ? std::string("\x1b[K\n") : std::string(1, c);
  return all + "\x1b[J";
}

// Time between the first two samples: rates are averages over it.
constexpr double kFirstLookSeconds = 0.2;

void wait(double seconds, const StopSignals& signals) {
  const double until = seconds_now() + seconds;
  while (signals.received() == 0 && seconds_now() < until)
    std::this_thread::sleep_for(std::chrono::duration<double>(std::min(0.05, until - seconds_now())));
}

int run_monitor(const MonitorArguments& arguments) {
  if (arguments.output.json_wanted() && !arguments.once)
    throw UserError("--json needs --once; use 'plimsoll monitor --once --json FILE'");
  if (!runtime_folder())
    throw UserError("there is no runtime folder that only you can write to; set XDG_RUNTIME_DIR to one",
                    UserError::Kind::failure);
  arguments.output.require_writable();
  const StopSignals signals;
  const bool redrawn = is_terminal(STDOUT_FILENO) && !arguments.once;
  Look last;
  look(last);
  wait(kFirstLookSeconds, signals);
  if (redrawn) print_result("\x1b[2J");
  while (signals.received() == 0) {
    const MonitorView view = look(last);
    Screen screen = screen_of(STDOUT_FILENO);
    if (!redrawn) screen.lines = kAnyWidth;
    const std::string text = monitor_text(view, screen);
    arguments.output.print(redrawn ? redrawing(text) : text);
    if (arguments.once) {
      arguments.output.write(json_of(view));
      return kDone;
    }
    if (!redrawn) print_result("\n");
    wait(arguments.interval, signals);
  }
  return kDone;  // ended by the user
}

}  // namespace

void add_monitor(CLI::App& app, Action& action) {
  CLI::App* command =
      app.add_subcommand("monitor", "watch runs: memory by role against the budget, throughput, devices");
  const auto arguments = std::make_shared<MonitorArguments>();
  command->add_option("--interval", arguments->interval, "seconds between two updates")
      ->check(between(kMinInterval, kMaxInterval))
      ->capture_default_str();
  command->add_flag("--once", arguments->once, "print one screen and end");
  arguments->output.add_option_to(*command);
  command->footer(kMonitorExamples);
  command->callback([&action, arguments] { action = [arguments] { return run_monitor(*arguments); }; });
}

}  // namespace plimsoll::cli
