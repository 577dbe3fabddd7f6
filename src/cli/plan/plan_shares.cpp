#include "cli/plan/plan_shares.h"

#include <fmt/format.h>

#include <cstdlib>

#include "cli/screen/short_numbers.h"
#include "cli/screen/table.h"
#include "plimsoll/bytes.h"
#include "plimsoll/devices.h"
#include "plimsoll/plan.h"

namespace plimsoll::cli {
namespace {

// Returns the card of the plan, if the catalogue has it.
const DeviceSpec* card_of(const PlannedJob& planned) {
  return planned.settings.cost.source == "catalogue" ? find_device(planned.settings.cost.device) : nullptr;
}

double share(int64_t part, int64_t whole) {
  return static_cast<double>(part) / static_cast<double>(whole);
}

// Returns "97.9 % of" or, if the part is at least twice the whole, "23.9 times".
std::string part_of(int64_t part, int64_t whole) {
  const double ratio = share(part, whole);
  return ratio < 2 ? percent_of(part, whole) + " of" : fmt::format("{:.{}f} times", ratio, ratio < 100 ? 1 : 0);
}

}  // namespace

std::string shares_text(const PlannedJob& planned, const Screen& screen) {
  const Plan& plan = planned.plan;
  const DeviceSpec* const card = card_of(planned);
  std::string text;
  if (plan.budget.device_bytes() > 0) text = part_of(plan.peak_bytes, plan.budget.device_bytes()) + " the budget";
  if (card)
    text += fmt::format("{}{} the {} of {}", text.empty() ? "" : ", ", part_of(plan.peak_bytes, card->memory_bytes),
                        format_bytes(card->memory_bytes), card->name);
  if (plan.budget.device_bytes() > 0) {
    const int64_t headroom = plan.budget.device_bytes() - plan.peak_bytes;
    text += headroom >= 0 ? fmt::format("; headroom {} ({} bytes)", format_bytes(headroom), headroom)
                          : fmt::format("; {} ({} bytes) over the budget", format_bytes(-headroom), -headroom);
  }
  return text.empty() ? "" : fold(text, screen.columns, 2);
}

void add_shares(Json& json, const PlannedJob& planned) {
  const Plan& plan = planned.plan;
  const bool bounded = plan.budget.device_bytes() > 0;
  json["headroom_bytes"] = bounded ? Json(plan.budget.device_bytes() - plan.peak_bytes) : Json(nullptr);
  json["budget_share"] = bounded ? Json(share(plan.peak_bytes, plan.budget.device_bytes())) : Json(nullptr);
  const DeviceSpec* const card = card_of(planned);
  json["device_bytes"] = card ? Json(card->memory_bytes) : Json(nullptr);
  json["device_share"] = card ? Json(share(plan.peak_bytes, card->memory_bytes)) : Json(nullptr);
}

std::string modules_table(const Plan& plan, const Screen& screen) {
  Table table({{.name = "module", .fit = Fit::middle, .min_width = 12},
               {"parameters", Align::right},
               {"gradients", Align::right},
               {"state", Align::right},
               {"activations", Align::right},
               {.name = "other", .align = Align::right, .drop = 1},
               {"sum", Align::right},
               {"share", Align::right}},
              "Memory at the peak by module");
  const auto add = [&](const std::string& name, const Breakdown& bytes) {
    const int64_t other = bytes.inputs + bytes.workspace + bytes.context + bytes.fragmentation;
    table.add_row({name, format_bytes(bytes.parameters), format_bytes(bytes.gradients),
                   format_bytes(bytes.optimizer_state), format_bytes(bytes.activations), format_bytes(other),
                   format_bytes(bytes.total()), percent_of(bytes.total(), plan.peak_bytes)});
  };
  for (const auto& [module, bytes] : bytes_by_module(plan)) add(module.empty() ? "no module" : module, bytes);
  table.add_rule();
  add("peak", plan.breakdown);
  return table.to_string(screen);
}

Json modules_json(const Plan& plan) {
  Json list = Json::array();
  for (const auto& [module, bytes] : bytes_by_module(plan))
    list.push_back({{"module", module.empty() ? Json(nullptr) : Json(module)},
                    {"bytes", bytes.total()},
                    {"breakdown", json_of(bytes)}});
  return list;
}

}  // namespace plimsoll::cli
