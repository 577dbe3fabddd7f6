#include "cli/trace/hot_listing.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/text_width.h"
#include "cli/screen/short_numbers.h"
#include "cli/screen/table.h"

namespace plimsoll::cli {
namespace {

std::string ratio_of(double seconds, double floor) {
  return floor > 0 ? fmt::format("{:.1f}", seconds / floor) : "-";
}

std::string share_of(double seconds, double all) {
  return all > 0 ? fmt::format("{:.1f} %", 100 * seconds / all) : "-";
}

constexpr size_t kMaxShown = 20, kMinShown = 5;
constexpr size_t kMaxOperandsWidth = 96;  ///< an attention's operands fill several lines; the JSON has all of them

// Returns the default number of rows: as many as a terminal shows at a time, in addition to `others` lines and its
// prompt.
size_t shown_on(const Screen& screen, size_t others) {
  if (screen.lines < others + 1 + kMinShown) return kMinShown;
  return std::min(kMaxShown, screen.lines - others - 1);
}

bool on_this_machine(const CostModel& cost) {
  return cost.source.starts_with("measured") || cost.source.starts_with("typical");
}

std::string notes_of(const HotOps& hot, const CostModel& cost) {
  std::string text = fmt::format("Device: {}. ", without_controls(cost.device));
  text += on_this_machine(cost)
              ? fmt::format("{} of the time comes from ops that were timed one by one; ",
                            share_of(hot.timed_seconds, hot.seconds))
              : std::string("No op was timed; all times are predicted from the rates in the catalogue; ");
  text += "the floor is the larger of arithmetic time and memory time at the rates of the op's kind";
  text += "; the ratio is time divided by floor.";
  if (on_this_machine(cost))
    text += " A ratio below 1 means faster than the measured rate, for example with operands in a cache.";
  return text;
}

}  // namespace

Json hot_json(const HotOps& hot, const CostModel& cost) {
  Json ops = Json::array();
  for (const HotOp& op : hot.ops)
    ops.push_back({{"name", op.name},
                   {"operands", op.operands},
                   {"modules", op.modules},
                   {"runs", op.runs},
                   {"seconds", op.seconds},
                   {"share", hot.seconds > 0 ? op.seconds / hot.seconds : 0},
                   {"floor_seconds", op.floor_seconds},
                   {"ratio", op.floor_seconds > 0 ? Json(op.seconds / op.floor_seconds) : Json(nullptr)},
                   {"timed", op.timed}});
  return {{"device", cost.device},
          {"times", cost.source},
          {"step_seconds", hot.seconds + hot.wait_seconds},
          {"timed_seconds", hot.timed_seconds},
          {"floor_seconds", hot.floor_seconds},
          {"wait_seconds", hot.wait_seconds},
          {"ops", std::move(ops)}};
}

std::string hot_text(const HotOps& hot, const CostModel& cost, const std::string& whole, int64_t count,
                     const Screen& screen) {
  const bool scrolls = screen.lines != kAnyWidth;  // each line under a row hides another row
  Table table({{.name = "operator", .fit = Fit::middle, .min_width = 24},
               {"runs", Align::right},
               {"time", Align::right},
               {"share", Align::right},
               {.name = "floor", .align = Align::right, .drop = 2},
               {"ratio", Align::right},
               {.drop = 1},
               {.name = "module", .fit = Fit::middle, .min_width = 18},
               {.name = "operands", .fit = scrolls ? Fit::end : Fit::below, .min_width = 24, .drop = 3}},
              fmt::format("Ops of {} by time", whole));
  const std::string notes = fold(notes_of(hot, cost), screen.columns);
  const size_t others = 9 + static_cast<size_t>(std::ranges::count(notes, '\n'));  // titles, rules, the sum, the rest
  const auto shown =
      std::min<int64_t>(count > 0 ? count : static_cast<int64_t>(shown_on(screen, others)), std::ssize(hot.ops));
  for (int64_t i = 0; i < shown; ++i) {
    const HotOp& op = hot.ops[i];
    table.add_row({op.name, std::to_string(op.runs), short_seconds(op.seconds), share_of(op.seconds, hot.seconds),
                   short_seconds(op.floor_seconds), ratio_of(op.seconds, op.floor_seconds), op.timed ? "" : "predicted",
                   op.modules, shorten_end(op.operands, kMaxOperandsWidth)});
  }
  table.add_rule();
  int64_t runs = 0;
  for (const HotOp& op : hot.ops) runs += op.runs;
  table.add_row({"all ops", std::to_string(runs), short_seconds(hot.seconds), share_of(hot.seconds, hot.seconds),
                 short_seconds(hot.floor_seconds), ratio_of(hot.seconds, hot.floor_seconds)});
  std::string text = table.to_string(screen);
  if (const int64_t rest = std::ssize(hot.ops) - shown; rest > 0) text += fmt::format("… and {} more kinds\n", rest);
  if (hot.wait_seconds > 0)
    text += fmt::format("additional waits for copies: {} (predicted)\n", short_seconds(hot.wait_seconds));
  return text + "\n" + notes;
}

}  // namespace plimsoll::cli
