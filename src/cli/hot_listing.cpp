#include "cli/hot_listing.h"

#include <fmt/format.h>

#include <algorithm>

#include "cli/plan_text.h"
#include "report/table.h"
#include "report/text_width.h"

namespace plimsoll::cli {
namespace {

std::string ratio_of(double seconds, double floor) {
  return floor > 0 ? fmt::format("{:.1f}", seconds / floor) : "-";
}

std::string share_of(double seconds, double all) {
  return all > 0 ? fmt::format("{:.1f} %", 100 * seconds / all) : "-";
}

// An attention's operands fill several lines; the JSON has them whole.
std::string shortened(const std::string& operands) {
  constexpr size_t most = 96;
  return display_width(operands) <= most ? operands : std::string(fit_width(operands, most - 2)) + " …";
}

bool on_this_machine(const CostModel& cost) {
  return cost.source.starts_with("measured") || cost.source.starts_with("typical");
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

std::string hot_text(const HotOps& hot, const CostModel& cost, const std::string& whole, int64_t count, bool terminal) {
  Table table({{"operator"},
               {"runs", Align::right},
               {"time", Align::right},
               {"share", Align::right},
               {"floor", Align::right},
               {"ratio", Align::right},
               {""},
               {"module"},
               {"operands"}},
              fmt::format("Ops of {} by time", whole));
  const auto shown = std::min<int64_t>(count, std::ssize(hot.ops));
  for (int64_t i = 0; i < shown; ++i) {
    const HotOp& op = hot.ops[i];
    table.add_row({op.name, std::to_string(op.runs), short_seconds(op.seconds), share_of(op.seconds, hot.seconds),
                   short_seconds(op.floor_seconds), ratio_of(op.seconds, op.floor_seconds), op.timed ? "" : "predicted",
                   op.modules, shortened(op.operands)});
  }
  table.add_rule();
  int64_t runs = 0;
  for (const HotOp& op : hot.ops) runs += op.runs;
  table.add_row({"all ops", std::to_string(runs), short_seconds(hot.seconds), share_of(hot.seconds, hot.seconds),
                 short_seconds(hot.floor_seconds), ratio_of(hot.seconds, hot.floor_seconds)});
  std::string text = table.to_string(terminal);
  if (const int64_t rest = std::ssize(hot.ops) - shown; rest > 0) text += fmt::format("… and {} more kinds\n", rest);
  if (hot.wait_seconds > 0)
    text += fmt::format("beside them, waits for copies: {}, predicted\n", short_seconds(hot.wait_seconds));
  text += fmt::format("\nDevice: {}. ", without_controls(cost.device));
  text += on_this_machine(cost) ? fmt::format("{} of the time is of ops that were timed, each apart from the others; ",
                                              share_of(hot.timed_seconds, hot.seconds))
                                : std::string("Nothing was timed: all of it is predicted, by the catalogue's rates; ");
  text += "the floor is\nthe larger of arithmetic and traffic by the rates of the op's kind.";
  if (on_this_machine(cost))
    text += " A ratio below 1: faster than what the rate was measured on,\nas where operands lie in a cache.";
  text += "\n";
  return text;
}

}  // namespace plimsoll::cli
