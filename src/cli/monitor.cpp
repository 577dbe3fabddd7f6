// Implements plimsoll monitor: shows the runs on this machine as a table that is redrawn.
#include "cli/monitor.h"

#include <fmt/format.h>
#include <unistd.h>
#include <CLI/App.hpp>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <map>
#include <memory>
#include <set>
#include <thread>
#include <utility>

#include "base/measurement.h"
#include "base/text.h"
#include "cli/command.h"
#include "cli/output.h"
#include "cli/process.h"
#include "cli/run_status.h"
#include "cli/screen/progress.h"
#include "cli/screen/table.h"
#include "cli/screen/terminal.h"
#include "cli/utilization.h"
#include "cli/value_checks.h"
#include "plimsoll/bytes.h"
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

namespace {

constexpr size_t kMaxBarWidth = 30, kMinBarWidth = 8;  ///< cells between the brackets
constexpr double kMaxSilenceSeconds =
    10;  ///< seconds: a run publishes its status every half second, and after each step

std::string bar(int64_t part, int64_t whole, size_t cells) {
  const double share = whole > 0 ? std::clamp(static_cast<double>(part) / static_cast<double>(whole), 0.0, 1.0) : 0;
  const auto full = static_cast<size_t>(share * static_cast<double>(cells) + 0.5);
  return "[" + std::string(full, '=') + std::string(cells - full, ' ') + "]";
}

std::string of_all(int64_t part, int64_t whole) {
  if (whole <= 0) return format_bytes(part);
  return fmt::format("{} of {} ({:.0f} %)", format_bytes(part), format_bytes(whole),
                     100.0 * static_cast<double>(part) / static_cast<double>(whole));
}

// A line of the screen: a text, or a part of a whole with a bar.
struct Fact {
  std::string name, text;
  bool has_bar = false;
  int64_t part = 0, whole = 0;  ///< bytes
};

struct Panel {
  std::string title;
  std::vector<Fact> facts;
};

Fact amount(std::string name, int64_t part, int64_t whole) {
  return {std::move(name), of_all(part, whole), whole > 0, part, whole};
}

Panel panel_of_machine(const MonitorView& view) {
  Panel panel{"This machine", {}};
  if (view.memory)
    panel.facts.push_back(amount("memory", view.memory->total - view.memory->available, view.memory->total));
  if (view.busy) panel.facts.push_back({"processors", fmt::format("{:.0f} % busy", 100 * *view.busy)});
  for (const GpuUse& gpu : view.gpus) {
    panel.facts.push_back(amount(gpu.name, gpu.memory_used, gpu.memory_total));
    if (gpu.busy) panel.facts.push_back({"  busy, by " + gpu.source, fmt::format("{:.0f} %", 100 * *gpu.busy)});
  }
  if (view.gpus.empty()) panel.facts.push_back({"GPUs", "none that NVML or ROCm SMI shows"});
  return panel;
}

// Returns "2 of 6, about 0:09 left"; "6 of 6, finished 0:40 ago" after the end.
std::string step_of(const RunStatus& status) {
  // Without max_steps the number of steps is known when the data are open.
  std::string text =
      status.max_steps > 0 ? fmt::format("{} of {}", status.step, status.max_steps) : fmt::format("{}", status.step);
  if (status.state != "training") text += ", " + status.state;
  if (is_ended(status))
    return text + fmt::format(" {} ago", format_duration(std::max(0.0, seconds_since_1970() - status.updated)));
  if (status.step > 0)
    text += fmt::format(", about {} left",
                        format_duration(static_cast<double>(status.max_steps - status.step) * status.step_seconds));
  return text;
}

std::string rate_of(const RunStatus& status) {
  return fmt::format("{} {}/s, {} a step", short_count(status.units_per_second), status.unit,
                     short_seconds(status.step_seconds));
}

std::string title_of(const RunStatus& status) {
  return fmt::format("{}, process {}", status.job.empty() ? "a job" : status.job, status.pid);
}

int64_t whole_of(const RunStatus& status) {
  return status.budget_bytes > 0 ? status.budget_bytes : status.planned_bytes;
}

// Returns the seconds since a run's last status, if it is overdue.
std::optional<double> silence_of(const RunStatus& status) {
  if (is_ended(status)) return std::nullopt;
  const double silent = seconds_since_1970() - status.updated;
  if (silent > kMaxSilenceSeconds + 2 * status.step_seconds) return silent;
  return std::nullopt;
}

// Returns "8 on 2 hosts, 3 % to 12 % of their time in exchanges".
std::string ranks_of(const RunStatus& status) {
  std::set<std::string> hosts;
  double least = 1, most = 0;
  for (const RankStatus& rank : status.ranks) {
    hosts.insert(rank.host);
    least = std::min(least, exchange_share(rank));
    most = std::max(most, exchange_share(rank));
  }
  return fmt::format("{} on {} host{}, {:.0f} % to {:.0f} % of their time in exchanges", status.ranks.size(),
                     hosts.size(), hosts.size() == 1 ? "" : "s", 100 * least, 100 * most);
}

std::string rank_text(const RankStatus& rank) {
  return fmt::format("{}: {}, in exchanges {} ({:.0f} %)", without_controls(rank.host),
                     of_all(rank.used_bytes, rank.planned_bytes), short_seconds(rank.exchange_seconds),
                     100 * exchange_share(rank));
}

enum class RankLines { one_each, none };

Panel panel_of(const RunView& run, RankLines rank_lines) {
  const RunStatus& status = run.status;
  Panel panel{title_of(status), {}};
  std::vector<Fact>& facts = panel.facts;
  facts.push_back({"step", step_of(status)});
  if (status.step > 0) {
    facts.push_back({"loss", fmt::format("{:.4f}", status.loss)});
    facts.push_back({"rate", rate_of(status)});
  }
  if (const auto silent = silence_of(status)) facts.push_back({"last update", format_duration(*silent) + " ago"});
  const int64_t whole = whole_of(status);
  facts.push_back(amount("device memory used", status.used_bytes, whole));
  facts.push_back(amount("planned peak", status.planned_bytes, whole));
  for (const RoleBytes& role : status.roles) facts.push_back(amount("  " + role.role, role.planned, whole));
  if (status.host_planned_bytes > 0)
    facts.push_back({"host memory planned", of_all(status.host_planned_bytes, status.host_budget_bytes)});
  if (!status.ranks.empty()) facts.push_back({"ranks", ranks_of(status)});
  if (rank_lines == RankLines::one_each)
    for (size_t r = 0; r < status.ranks.size(); ++r)
      facts.push_back({fmt::format("  rank {}", r), rank_text(status.ranks[r])});
  std::string process = run.resident ? format_bytes(*run.resident) + " resident" : "";
  if (run.cores) process += fmt::format("{}{:.1f} cores busy", process.empty() ? "" : ", ", *run.cores);
  if (!process.empty()) facts.push_back({"process", process});
  return panel;
}

// Returns a run in three lines, for a small screen.
Panel brief_panel_of(const RunView& run) {
  const RunStatus& status = run.status;
  Panel panel{title_of(status), {{"step", step_of(status)}}};
  if (const auto silent = silence_of(status))
    panel.facts.front().text += fmt::format(", last update {} ago", format_duration(*silent));
  else if (status.step > 0)
    panel.facts.front().text += fmt::format(", loss {:.4f}", status.loss);
  panel.facts.push_back(amount("device memory used", status.used_bytes, whole_of(status)));
  return panel;
}

// Returns the panels as text. All bars begin in the same column and have the same length.
std::string text_of(const std::vector<Panel>& panels, const Screen& screen, bool brief) {
  size_t names = 0, amounts = 0;
  for (const Panel& panel : panels)
    for (const Fact& fact : panel.facts) {
      names = std::max(names, display_width(fact.name));
      if (fact.has_bar) amounts = std::max(amounts, display_width(fact.text));
    }
  constexpr size_t beside = 5;  // gap after names, brackets, a space
  const size_t room = screen.columns > names + amounts + beside ? screen.columns - names - amounts - beside : 0;
  const size_t cells = std::clamp(room, kMinBarWidth, kMaxBarWidth);
  std::string text;
  for (const Panel& panel : panels) {
    if (!text.empty()) text += "\n";
    Table table({{""}, {.fit = Fit::fold, .min_width = 20}}, shorten_middle(panel.title, screen.columns));
    for (const Fact& fact : panel.facts)
      table.add_row({fact.name + std::string(names - display_width(fact.name), ' '),
                     fact.has_bar ? bar(fact.part, fact.whole, cells) + " " + fact.text : fact.text});
    std::string lines = table.to_string(screen);
    if (brief) lines.erase(lines.find('\n'), 1);  // the empty line under the title
    text += lines;
  }
  return text;
}

size_t lines_in(const std::string& text) {
  return static_cast<size_t>(std::ranges::count(text, '\n'));
}

}  // namespace

double exchange_share(const RankStatus& rank) {
  return rank.train_seconds > 0 ? std::clamp(rank.exchange_seconds / rank.train_seconds, 0.0, 1.0) : 0;
}

std::string monitor_text(const MonitorView& view, const Screen& screen) {
  std::vector<Panel> panels;
  std::string text;
  for (const RankLines rank_lines : {RankLines::one_each, RankLines::none}) {
    panels = {panel_of_machine(view)};
    for (const RunView& run : view.runs) panels.push_back(panel_of(run, rank_lines));
    text = text_of(panels, screen, /*brief=*/false);
    if (std::ranges::all_of(view.runs, [](const RunView& run) { return is_ended(run.status); }))
      text += "\nno run of this user is active\n";
    if (view.runs.empty() || lines_in(text) < screen.lines) return text;
  }
  panels.resize(1);
  for (size_t shown = 0; shown < view.runs.size(); ++shown) {
    panels.push_back(brief_panel_of(view.runs[shown]));
    const std::string longer = text_of(panels, screen, /*brief=*/true);
    const size_t rest = view.runs.size() - shown - 1;
    if (shown > 0 && lines_in(longer) + (rest > 0 ? 1 : 0) >= screen.lines)
      return text + fmt::format("… and {} more runs: plimsoll monitor --once\n", rest + 1);
    text = longer;
  }
  return text;
}

}  // namespace plimsoll::cli
