#include "cli/monitor_screen.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <utility>

#include "base/text.h"
#include "cli/screen/progress.h"
#include "cli/screen/table.h"
#include "plimsoll/bytes.h"

namespace plimsoll::cli {
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
