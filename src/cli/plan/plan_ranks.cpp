#include "cli/plan/plan_ranks.h"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>

#include "cli/result_text.h"
#include "cli/screen/table.h"
#include "plimsoll/bytes.h"
#include "plimsoll/cost_model.h"
#include "plimsoll/job.h"

namespace plimsoll::cli {

StepExchanges exchanges_of(const PlannedJob& planned) {
  const ResolvedSettings& settings = planned.settings;
  return exchanges_of_step(settings.cost, planned.plan.trace, settings.first_accumulation(),
                           settings.last_micro_batch > 0);
}

std::string strategy_of(const Job& job, const PlannedJob& planned) {
  if (planned.settings.ranks.count < 2) return "";
  constexpr std::string_view kDecision = "strategy: ";
  for (const Reason& reason : planned.plan.reasons)
    if (reason.decision.starts_with(kDecision)) return reason.decision.substr(kDecision.size());
  return std::string(name_of(job.ranks.strategy));
}

double units_per_second_of_all(const PlannedJob& planned) {
  return planned.tokens_per_second * static_cast<double>(planned.settings.ranks.count);
}

std::vector<std::pair<std::string, std::string>> rank_rows(const Job& job, const PlannedJob& planned) {
  const ResolvedSettings& settings = planned.settings;
  if (settings.ranks.count < 2) return {};
  const StepExchanges exchanges = exchanges_of(planned);
  std::vector<std::pair<std::string, std::string>> rows{
      {"devices", fmt::format("{}; the plan is that of one of them", settings.ranks.count)},
      {"link", fmt::format("{}; {:.1f} GB/s per device, {} latency", settings.link, settings.cost.peer_link / 1e9,
                           short_seconds(settings.cost.peer_latency))},
      {"strategy", strategy_of(job, planned)}};
  // Several devices without exchanges do not train together: the recording lacks their exchanges.
  if (exchanges.count == 0) {
    rows.emplace_back("sent per step", "not known: no exchanges were recorded; predicted times are without them");
    return rows;
  }
  rows.emplace_back("sent per step", fmt::format("{} ({} bytes) per device, in {} exchanges",
                                                 format_bytes(exchanges.bytes), exchanges.bytes, exchanges.count));
  if (!planned.plan.fits) return rows;
  rows.emplace_back("exchanges",
                    fmt::format("{} on the links, of which ops wait {}; the step takes {} without the links",
                                short_seconds(exchanges.seconds), short_seconds(exchanges.waited),
                                short_seconds(std::max(0.0, planned.step_seconds - exchanges.waited))));
  rows.emplace_back("all devices", fmt::format("{} {}/s", short_count(units_per_second_of_all(planned)), unit_of(job)));
  return rows;
}

void add_ranks(Json& json, const Job& job, const PlannedJob& planned) {
  const ResolvedSettings& settings = planned.settings;
  const bool several = settings.ranks.count > 1;
  const StepExchanges exchanges = exchanges_of(planned);
  json["devices"] = settings.ranks.count;
  json["strategy"] = several ? Json(strategy_of(job, planned)) : Json();
  json["link"] = several ? Json(settings.link) : Json();
  const bool known = !several || exchanges.count > 0;
  json["link_bytes_per_step"] = known ? Json(exchanges.bytes) : Json();
  json["exchange_seconds_per_step"] = known ? Json(exchanges.seconds) : Json();
  json["exchange_wait_seconds_per_step"] = known ? Json(exchanges.waited) : Json();
  json["units_per_second_all_devices"] = known ? Json(units_per_second_of_all(planned)) : Json();
}

}  // namespace plimsoll::cli
