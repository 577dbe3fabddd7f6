#include "plimsoll/plan_page.h"

#include <embedded/plan_page.h>  // the files of report/page (cmake/Embed.cmake)
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <string_view>

#include "base/text.h"
#include "plimsoll/bytes.h"
#include "plimsoll/error.h"
#include "report/plan_page_data.h"

namespace plimsoll {
namespace {

constexpr size_t kResidentsNamed = 25;
constexpr std::array<const char*, kPageAreas> kAreaNames = {"parameters", "optimizer state", "gradients", "activations",
                                                            "inputs",     "workspace",       "context"};
constexpr int kFragmentation = kPageAreas;  // index of the color after the areas'

// Escapes text for HTML and for quoted attribute values.
std::string escaped(std::string_view raw) {
  std::string html;
  for (char c : without_controls(raw)) {
    switch (c) {
      case '&':
        html += "&amp;";
        break;
      case '<':
        html += "&lt;";
        break;
      case '>':
        html += "&gt;";
        break;
      case '"':
        html += "&quot;";
        break;
      case '\'':
        html += "&#39;";
        break;
      default:
        html += c;
    }
  }
  return html;
}

// Returns JSON for a script element: without "<", nothing in it can end the element or open a comment. Bytes that are
// not UTF-8 become U+FFFD.
std::string script_json(const nlohmann::json& json) {
  std::string text;
  for (char c : json.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace)) {
    if (c == '<')
      text += "\\u003c";
    else
      text += c;
  }
  return text;
}

// Returns "12,345,678".
std::string grouped(int64_t number) {
  std::string digits = std::to_string(number);
  for (auto at = static_cast<int64_t>(digits.size()) - 3; at > (number < 0 ? 1 : 0); at -= 3)
    digits.insert(static_cast<size_t>(at), 1, ',');
  return digits;
}

std::string percent(int64_t part, int64_t whole) {
  if (whole <= 0) return "–";
  return fmt::format("{:.1f} %", 100 * static_cast<double>(part) / static_cast<double>(whole));
}

std::string seconds(double value) {
  if (!(value > 0) || !std::isfinite(value)) return "–";
  if (value >= 1) return fmt::format("{:.3g} s", value);
  if (value >= 1e-3) return fmt::format("{:.3g} ms", value * 1e3);
  return fmt::format("{:.3g} µs", value * 1e6);
}

// Returns "7.42 GiB", with the bytes on hover.
std::string amount(int64_t bytes) {
  return fmt::format("<span title=\"{} bytes\">{}</span>", grouped(bytes), format_bytes(bytes));
}

// Returns the amount rounded up, so that a budget of this text fits.
std::string least_amount(int64_t bytes) {
  return fmt::format("<span title=\"{} bytes\">{}</span>", grouped(bytes), format_bytes_up(bytes));
}

struct Part {
  int area;
  const char* name;
  int64_t bytes;
};

std::vector<Part> parts_of(const Breakdown& b) {
  const std::array<int64_t, kPageAreas> bytes = {b.parameters, b.optimizer_state, b.gradients, b.activations,
                                                 b.inputs,     b.workspace,       b.context};
  std::vector<Part> parts;
  for (int area = 0; area < kPageAreas; ++area) parts.push_back({area, kAreaNames[area], bytes[area]});
  parts.push_back({kFragmentation, "fragmentation", b.fragmentation});
  return parts;
}

std::string verdict_html(const PlanPage& page) {
  const Plan& plan = *page.plan;
  const std::string least = page.minimum_budget_bytes > 0 ? fmt::format("The smallest budget that fits is {}.",
                                                                        least_amount(page.minimum_budget_bytes))
                                                          : "";
  if (plan.budget.device_bytes() <= 0)
    return fmt::format("<div class=\"verdict open\"><strong>Takes {}</strong>No budget is set. {}</div>\n",
                       amount(plan.peak_bytes), least);
  if (plan.fits)
    return fmt::format(
        "<div class=\"verdict\"><strong>Fits: {} of {}</strong>{} to spare ({} of the budget). {}</div>\n",
        amount(plan.peak_bytes), amount(plan.budget.device_bytes()),
        amount(plan.budget.device_bytes() - plan.peak_bytes),
        percent(plan.budget.device_bytes() - plan.peak_bytes, plan.budget.device_bytes()), least);
  return fmt::format(
      "<div class=\"verdict over\"><strong>Does not fit: {} of {}</strong>{} over the budget. {}</div>\n",
      amount(plan.peak_bytes), amount(plan.budget.device_bytes()), amount(plan.peak_bytes - plan.budget.device_bytes()),
      least);
}

std::string tiles_html(const PlanPage& page) {
  const Plan& plan = *page.plan;
  std::string html = "<dl class=\"tiles\">\n";
  const auto tile = [&](std::string_view name, const std::string& value) {
    html += fmt::format("<div><dt>{}</dt><dd>{}</dd></div>\n", name, value);
  };
  tile("Peak", amount(plan.peak_bytes));
  if (plan.budget.device_bytes() > 0) tile("Budget", amount(plan.budget.device_bytes()));
  if (page.minimum_budget_bytes > 0) tile("Smallest budget", least_amount(page.minimum_budget_bytes));
  tile("Arena waste", fmt::format("{:.2f} %", 100 * plan.arena_waste()));
  for (const auto& [name, value] : page.facts) tile(escaped(name), escaped(value));
  return html + "</dl>\n";
}

std::string breakdown_html(const Plan& plan) {
  const std::vector<Part> parts = parts_of(plan.breakdown);
  const int64_t whole = std::max({plan.peak_bytes, plan.budget.device_bytes(), int64_t{1}});
  const auto width = [&](int64_t bytes) { return 100 * static_cast<double>(bytes) / static_cast<double>(whole); };
  std::string bar, rows, spoken;
  for (const Part& part : parts) {
    if (part.bytes == 0) continue;
    bar += fmt::format("<span class=\"a{}\" style=\"width:{:.4f}%\" title=\"{}: {}\"></span>", part.area,
                       width(part.bytes), part.name, format_bytes(part.bytes));
    spoken += fmt::format("{}{} {}", spoken.empty() ? "" : ", ", part.name, format_bytes(part.bytes));
    rows += fmt::format(
        "<tr><td class=\"part\"><span class=\"swatch a{0}\"></span>{1}</td><td class=\"n\">{2}</td>"
        "<td class=\"n wide bytes\">{3}</td><td class=\"n\">{4}</td>"
        "<td class=\"track wide\"><span class=\"meter a{0}\" style=\"width:{5:.3f}%\"></span></td></tr>\n",
        part.area, part.name, amount(part.bytes), grouped(part.bytes), percent(part.bytes, plan.peak_bytes),
        plan.peak_bytes > 0 ? 100 * static_cast<double>(part.bytes) / static_cast<double>(plan.peak_bytes) : 0);
  }
  rows += fmt::format(
      "<tr class=\"sum\"><td>peak</td><td class=\"n\">{}</td><td class=\"n wide bytes\">{}</td>"
      "<td class=\"n\">{}</td><td class=\"track wide\"></td></tr>\n",
      amount(plan.peak_bytes), grouped(plan.peak_bytes), percent(plan.peak_bytes, plan.peak_bytes));
  std::string scale;
  if (plan.budget.device_bytes() > 0) {
    const double at = width(plan.budget.device_bytes());
    // From the middle on, the label is left of its tick, so that it stays inside the page.
    scale = fmt::format(
        "<div class=\"scale\"><span class=\"tick\" style=\"left:{0:.3f}%\"></span><span style=\"{1}\">budget "
        "{2}</span></div>\n",
        at, at > 50 ? fmt::format("right:{:.3f}%", 100 - at) : fmt::format("left:{:.3f}%", at),
        format_bytes(plan.budget.device_bytes()));
  }
  return fmt::format(
      "<section aria-labelledby=\"h-breakdown\"><h2 id=\"h-breakdown\">Memory at the peak</h2>\n"
      "<div class=\"bar\" role=\"img\" aria-label=\"Memory at the peak: {}\">{}</div>\n{}"
      "<table><thead><tr><th>part</th><th class=\"n\">memory</th><th class=\"n wide\">bytes</th>"
      "<th class=\"n\">share</th><th class=\"wide\"></th></tr></thead>\n<tbody>\n{}</tbody></table></section>\n",
      spoken, bar, scale, rows);
}

// Returns "op 1,234 of 9,876, aten::mm.out in layers.3.mlp, backward, segment micro".
std::string describe_peak(const Plan& plan) {
  const Trace& trace = plan.trace;
  const Op& op = trace.ops[plan.peak_op];
  std::string text = fmt::format("op {} of {}, {}", grouped(plan.peak_op + 1),
                                 grouped(static_cast<int64_t>(trace.ops.size())), escaped(page_name(op.name)));
  if (op.module > 0 && static_cast<size_t>(op.module) < trace.modules.size())
    text += " in " + escaped(page_name(trace.modules[op.module]));
  text += fmt::format(", {}", name_of(op.phase));
  for (const Segment& segment : trace.segments)
    if (segment.begin <= plan.peak_op && plan.peak_op < segment.end)
      text += ", segment " + std::string(name_of(segment.kind));
  return text;
}

struct ExchangeSum {
  int64_t count = 0, bytes = 0;
};

// Sums each exchange of the trace once, although a step repeats segments.
ExchangeSum exchanges_of(const Plan& plan) {
  ExchangeSum sum;
  for (const Op& op : plan.trace.ops) {
    sum.count += op.link_bytes > 0 ? 1 : 0;
    sum.bytes += op.link_bytes;
  }
  return sum;
}

std::string legend_html(const Plan& plan) {
  std::string html = "<ul class=\"legend\">";
  for (const Part& part : parts_of(plan.breakdown)) {
    // Parts without bytes at the peak may have some at other ops. The context is constant, and gaps have no color.
    if (part.area == kFragmentation || (part.area == kPageAreas - 1 && part.bytes == 0)) continue;
    html += fmt::format("<li><span class=\"swatch a{}\"></span>{}</li>", part.area, part.name);
  }
  const bool again =
      std::any_of(plan.trace.ops.begin(), plan.trace.ops.end(), [](const Op& op) { return op.recomputed; });
  if (again) html += "<li><span class=\"swatch again\"></span>recomputed op</li>";
  const ExchangeSum exchanges = exchanges_of(plan);
  if (exchanges.count > 0)
    html += fmt::format(
        "<li><span class=\"swatch exchange\"></span><span>exchange between ranks ({} of the ops, {} sent)</span></li>",
        grouped(exchanges.count), amount(exchanges.bytes));
  return html + "</ul>\n";
}

std::string timeline_html(const PlanPage& page) {
  const Plan& plan = *page.plan;
  std::string tools =
      "<div class=\"tools\"><div class=\"group\" role=\"group\" aria-label=\"Part of the trace shown\" id=\"zoom\">"
      "<button type=\"button\" data-segment=\"-1\" aria-pressed=\"true\">whole trace</button>";
  for (size_t s = 0; s < plan.trace.segments.size(); ++s)
    tools += fmt::format("<button type=\"button\" data-segment=\"{}\" aria-pressed=\"false\">{}</button>", s,
                         name_of(plan.trace.segments[s].kind));
  tools += "</div>";
  if (!page.op_seconds.empty())
    tools +=
        "<div class=\"group\" role=\"group\" aria-label=\"Horizontal axis\" id=\"axis\">"
        "<button type=\"button\" data-axis=\"ops\" aria-pressed=\"true\">by op</button>"
        "<button type=\"button\" data-axis=\"time\" aria-pressed=\"false\">by predicted time</button></div>";
  tools += "</div>";
  return fmt::format(
      "<section aria-labelledby=\"h-timeline\"><div class=\"head\"><h2 id=\"h-timeline\">Memory over the "
      "step</h2>{}</div>\n"
      "<p class=\"note\" id=\"peak-text\">Peak: {} at {}.</p>\n{}"
      "<div class=\"chart\" id=\"timeline\"><canvas tabindex=\"0\" role=\"slider\" aria-label=\"Live memory over the "
      "ops "
      "of the step; arrow keys move from op to op\" aria-valuemin=\"1\" aria-valuemax=\"{}\" aria-valuenow=\"{}\" "
      "aria-valuetext=\"{}\"></canvas><canvas class=\"over\" aria-hidden=\"true\"></canvas></div>\n"
      "<p class=\"note\">Live bytes at each op, by role.{} Drag to zoom, double-click for the whole "
      "trace.</p></section>\n",
      tools, amount(plan.peak_bytes), describe_peak(plan), legend_html(plan), plan.trace.ops.size(), plan.peak_op + 1,
      describe_peak(plan),
      exchanges_of(plan).count > 0 ? " The strip below the phases shows the exchanges between ranks." : "");
}

std::string arena_html(const Plan& plan, const PageBuffers& buffers) {
  std::string count = fmt::format("{} buffers", grouped(static_cast<int64_t>(buffers.drawn.size())));
  if (buffers.left_out > 0)
    count +=
        fmt::format(" are drawn; {} smaller ones, of {} or less each, are left out of the map (not of the figures)",
                    grouped(static_cast<int64_t>(buffers.left_out)), format_bytes(buffers.left_out_largest));
  return fmt::format(
      "<section aria-labelledby=\"h-arena\"><h2 id=\"h-arena\">The arena</h2>\n"
      "<p class=\"note\">Each buffer is a rectangle: its life in ops, its place in the arena of {}. {}. Drag over a "
      "part to see it closer.</p>\n"
      "<div class=\"chart\" id=\"arena\"><canvas role=\"img\" aria-label=\"Map of the arena: {} over ops and offset; "
      "the "
      "largest at the peak are listed below\"></canvas><canvas class=\"over\" "
      "aria-hidden=\"true\"></canvas></div></section>\n",
      amount(plan.arena_bytes), count, count);
}

// Returns the module that made a buffer, because "aten::mm.out" alone is not specific. A buffer with a name of its own
// needs none.
std::string module_html(const Plan& plan, const PageBuffer& buffer) {
  const Op& op = plan.trace.ops[buffer.birth];
  if (buffer.persistent || op.module <= 0 || static_cast<size_t>(op.module) >= plan.trace.modules.size()) return "";
  return fmt::format("<span class=\"module\">{}</span>", escaped(page_name(plan.trace.modules[op.module])));
}

std::string residents_html(const Plan& plan, const PageBuffers& buffers) {
  std::string rows;
  const int64_t largest = buffers.residents.empty() ? 1 : buffers.drawn[buffers.residents.front()].bytes;
  for (size_t index : buffers.residents) {
    const PageBuffer& buffer = buffers.drawn[index];
    rows += fmt::format(
        "<tr data-buffer=\"{0}\"><td class=\"name\"><button type=\"button\">{1}{7}</button></td>"
        "<td class=\"part\"><span class=\"swatch a{2}\"></span>{3}</td><td class=\"n\">{4}</td>"
        "<td class=\"n wide\">{5}</td>"
        "<td class=\"track wide\"><span class=\"meter a{2}\" style=\"width:{6:.3f}%\"></span></td></tr>\n",
        index, escaped(page_name(buffer.label)), page_area(buffer.role),
        buffer.role == Role::optimizer_state ? "optimizer state" : name_of(buffer.role), amount(buffer.bytes),
        percent(buffer.bytes, plan.peak_bytes), 100 * static_cast<double>(buffer.bytes) / static_cast<double>(largest),
        module_html(plan, buffer));
  }
  if (buffers.residents_left > 0)
    rows += fmt::format(
        "<tr class=\"rest\"><td class=\"name\">{} more</td><td></td><td class=\"n\">{}</td><td class=\"n wide\">{}</td>"
        "<td class=\"track wide\"></td></tr>\n",
        grouped(static_cast<int64_t>(buffers.residents_left)), amount(buffers.residents_left_bytes),
        percent(buffers.residents_left_bytes, plan.peak_bytes));
  return fmt::format(
      "<section aria-labelledby=\"h-residents\"><h2 id=\"h-residents\">What lives at the peak</h2>\n"
      "<table class=\"peak\" id=\"residents\"><thead><tr><th>buffer</th><th>role</th><th class=\"n\">memory</th>"
      "<th class=\"n wide\">of peak</th><th class=\"wide\"></th></tr></thead>\n<tbody>\n{}</tbody></table></section>\n",
      rows);
}

std::string frontier_html(const PlanPage& page) {
  if (page.frontier.empty()) return "";
  std::vector<FrontierPoint> points = page.frontier;
  std::stable_sort(points.begin(), points.end(),
                   [](const FrontierPoint& a, const FrontierPoint& b) { return a.budget_bytes < b.budget_bytes; });
  std::string rows;
  for (const FrontierPoint& point : points)
    rows += fmt::format(
        "<tr><td class=\"n\">{}</td><td class=\"n\">{}</td><td class=\"n\">{}</td><td class=\"name\">{}</td></tr>\n",
        amount(point.budget_bytes), amount(point.peak_bytes), point.fits ? seconds(point.step_seconds) : "does not fit",
        escaped(point.choices));
  return fmt::format(
      "<section aria-labelledby=\"h-frontier\"><h2 id=\"h-frontier\">Memory against step time</h2>\n"
      "<p class=\"note\">The fastest step that the planner finds within each budget.</p>\n"
      "<div class=\"chart\" id=\"frontier\"></div>\n"
      "<details><summary>as a table</summary><table><thead><tr><th class=\"n\">budget</th><th class=\"n\">peak</th>"
      "<th class=\"n\">step</th><th>choices</th></tr></thead>\n<tbody>\n{}</tbody></table></details></section>\n",
      rows);
}

std::string reasons_html(const Plan& plan) {
  if (plan.reasons.empty()) return "";
  std::string list;
  for (const Reason& reason : plan.reasons)
    list += fmt::format("<dt>{}</dt><dd>{}</dd>\n", escaped(reason.decision), escaped(reason.why));
  return fmt::format(
      "<section aria-labelledby=\"h-reasons\"><h2 id=\"h-reasons\">Why this plan</h2>\n<dl "
      "class=\"reasons\">\n{}</dl></section>\n",
      list);
}

}  // namespace

// The files of report/page:
//   head.html    The fault handler is a separate first script, because it must report faults of the other scripts even
//                when they do not parse. The policy enforces the promise of the header: the browser refuses everything
//                from other origins.
//   style.css    Colors by role are Paul Tol's "bright" scheme, distinct with every common kind of color blindness.
//   model.js     Reads the data (plan_page_data.h), formats numbers, shows tooltips, keeps the view on the ops.
//   charts.js    Draws the timeline and the arena map on canvases: an SVG of 40 000 rectangles would not scroll.
//                A second canvas above each shows marks at the pointer, so that moving it redraws nothing else.
//   frontier.js  Draws memory against step time as an SVG, in which each point takes the keyboard's focus by itself.
//   controls.js  Handles pointer, keyboard, zoom and the list of residents. It starts the page, so it comes last.
std::string to_html(const PlanPage& page) {
  check(page.plan != nullptr, "a page of no plan");
  const Plan& plan = *page.plan;
  check(page.op_seconds.empty() || page.op_seconds.size() == plan.trace.ops.size(), "op_seconds are not one an op");
  check(plan.offsets.size() == plan.trace.buffers.size() && plan.workspace_offsets.size() == plan.trace.ops.size(),
        "the plan's offsets are not those of its trace");
  const bool empty = plan.trace.ops.empty();
  check(empty || (plan.peak_op >= 0 && static_cast<size_t>(plan.peak_op) < plan.trace.ops.size()),
        "the plan's peak is not in its trace");

  std::string html = "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n";
  html += kPlanPageHead;
  html += fmt::format("<title>{}: plan</title>\n<style>\n{}</style>\n</head>\n<body>\n", escaped(page.title),
                      kPlanPageStyle);
  html += fmt::format("<header><h1>{}</h1>\n<p class=\"subtitle\">{}</p></header>\n<main>\n", escaped(page.title),
                      escaped(page.subtitle));
  html += verdict_html(page);
  html += "<div id=\"fault\" role=\"alert\" hidden></div>\n";
  html += "<noscript><p class=\"note\">The charts need JavaScript; the tables are complete without.</p></noscript>\n";
  html += tiles_html(page);
  html += breakdown_html(plan);
  PageBuffers buffers;
  if (!empty) {
    buffers = page_buffers(plan, kResidentsNamed);
    html += timeline_html(page);
    html += arena_html(plan, buffers);
    html += residents_html(plan, buffers);
  }
  html += frontier_html(page);
  html += reasons_html(plan);
  html += "</main>\n<footer>Planned by Plimsoll: predicted, not measured. 1 GiB = 2<sup>30</sup> bytes.</footer>\n";
  html += "<div id=\"tip\" role=\"status\" hidden></div>\n";
  html += "<script type=\"application/json\" id=\"plan-data\">" + script_json(page_data(page, buffers)) + "</script>\n";
  html += fmt::format("<script>\n'use strict';\n(() => {{\n\n{}\n{}\n{}\n{}}})();\n</script>\n</body>\n</html>\n",
                      kPlanPageModel, kPlanPageCharts, kPlanPageFrontier, kPlanPageControls);
  return html;
}

}  // namespace plimsoll
