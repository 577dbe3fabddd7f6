#include "cli/plan/plan_advice.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <cmath>

#include "base/measurement.h"
#include "base/text.h"
#include "cli/process.h"
#include "cli/screen/progress.h"
#include "cli/screen/table.h"
#include "plimsoll/bytes.h"
#include "plimsoll/job.h"

namespace plimsoll::cli {
namespace {

// The limit of 10 s, less the time between two schedules of a large step (up to half a second) and the start of the
// program.
constexpr double kFastSeconds = 8.7, kMinAdviceSeconds = 3;

std::optional<double> seconds_in(const std::string& text) {
  double seconds = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), seconds);
  if (error != std::errc() || end != text.data() + text.size()) return {};
  if (!std::isfinite(seconds) || seconds <= 0 || seconds > 1e6) return {};
  return seconds;
}

std::string describe_changes(int64_t count) {
  return fmt::format("{} change{}", count, count == 1 ? "" : "s");
}

}  // namespace

std::string problem_of_advice_time(const std::string& text) {
  if (text == "none" || text == "fast" || text == "full" || seconds_in(text)) return "";
  return fmt::format("--advice is none, fast, full or a number of seconds, and {} is none of them", in_quotes(text));
}

AdviceTime advice_time_of(const std::string& text) {
  return {.wanted = text != "none", .fast = text == "fast", .seconds = seconds_in(text)};
}

FoundAdvice advice_within(const AdviceTime& time, double elapsed, const std::filesystem::path& file,
                          const std::vector<std::string>& overrides, const PlanTarget& target,
                          const PlannedJob& base_plan, std::optional<PlanTarget> without_job_budget) {
  FoundAdvice found;
  found.limit_seconds = time.seconds;
  if (time.fast) found.limit_seconds = std::max(kFastSeconds - elapsed, kMinAdviceSeconds);
  const double begin = seconds_now();
  const StopSignals signals("stopping; the changes found so far follow; press Ctrl-C again to stop immediately");
  {
    Waiting waiting("searching for changes that fit");
    AdviceOptions options;
    options.without_job_budget = std::move(without_job_budget);
    options.should_continue = [&](const AdviceProgress& at) {
      waiting.say(fmt::format("{} planned, {} fit{}, now {}{}", describe_changes(at.planned), at.found,
                              at.found == 1 ? "s" : "", at.change,
                              at.schedules > 1 ? fmt::format(", schedule {}", at.schedules) : ""));
      return signals.received() == 0 && (!found.limit_seconds || seconds_now() < begin + *found.limit_seconds);
    };
    found.search = find_fitting_changes(file, overrides, target, base_plan, options);
  }
  found.seconds = seconds_now() - begin;
  found.interrupted = signals.received() != 0;
  return found;
}

std::string advice_text(const FoundAdvice& found, const Job& job, const Screen& screen, std::string_view longer) {
  const AdviceSearch& search = found.search;
  std::string text;
  if (!search.found.empty()) {
    text = "\nChanges that would fit\n\n";
    for (const Advice& each : search.found) {
      const std::string bytes = format_bytes(each.peak_bytes);
      // The change is on lines of its own, so that it can be copied.
      text += fold(override_text(each), screen.columns, 2) +
              fold(fmt::format("  {}: {}", each.meaning,
                               each.step_seconds > 0
                                   ? fmt::format("peak {}, at most {} per step, {} {}/s", bytes,
                                                 short_seconds(each.step_seconds), short_count(each.tokens_per_second),
                                                 unit_of(job))
                                   : bytes + " are enough; the step time was not predicted before the search ended"),
                   screen.columns, 2);
    }
  }
  if (!search.ended_early) {
    if (search.found.empty())
      text += "\n" + fold(fmt::format("No change of the job fits; {} tried.", describe_changes(search.planned)),
                          screen.columns);
    return text;
  }
  std::string ending =
      fmt::format("The search for {}changes that fit ended {}; {} tried", search.found.empty() ? "" : "more ",
                  found.interrupted ? "at the interrupt" : "after " + short_seconds(found.seconds),
                  describe_changes(search.planned));
  if (search.found.empty()) ending += ", none fits";
  if (!search.untried.empty()) ending += fmt::format("; next to try: {}", search.untried.front());
  if (!found.interrupted) ending += fmt::format("; to search longer: {}", longer);
  return text + "\n" + fold(ending + ".", screen.columns);
}

Json advice_json(const AdviceSearch& search) {
  Json list = Json::array();
  for (const Advice& each : search.found)
    list.push_back({{"change", override_text(each)},
                    {"overrides", each.overrides},
                    {"meaning", each.meaning},
                    {"peak_bytes", each.peak_bytes},
                    {"step_seconds", each.step_seconds > 0 ? Json(each.step_seconds) : Json(nullptr)},
                    {"units_per_second", each.step_seconds > 0 ? Json(each.tokens_per_second) : Json(nullptr)}});
  return list;
}

Json advice_search_json(const FoundAdvice& found) {
  return {{"complete", !found.search.ended_early},
          {"interrupted", found.interrupted},
          {"limit_seconds", found.limit_seconds ? Json(*found.limit_seconds) : Json(nullptr)},
          {"seconds", found.seconds},
          {"planned", found.search.planned},
          {"not_planned", found.search.untried}};
}

namespace {

constexpr double kTimesThePlan = 3, kMinWhatIfSeconds = 10;

}  // namespace

WhatIf what_if(const std::filesystem::path& file, const std::vector<std::string>& overrides, const PlanTarget& target,
               const PlannedJob& base_plan, std::optional<double> seconds, const StopSignals& signals) {
  const double limit = seconds.value_or(std::max(kMinWhatIfSeconds, kTimesThePlan * base_plan.plan_seconds));
  const double end = seconds_now() + limit;
  WhatIf found;
  {
    Waiting waiting("planning smaller values");
    found.changes = model_variants(file, overrides, target, base_plan, [&](const ModelVariantsProgress& at) {
      waiting.say(fmt::format("{} of {} planned, now {}{}", at.done, at.total, at.change,
                              at.schedules > 1 ? fmt::format(", schedule {}", at.schedules) : ""));
      return signals.received() == 0 && seconds_now() < end;
    });
  }
  const std::vector<std::string>& left = found.changes.untried;
  if (left.empty()) return found;
  found.cut_short =
      fmt::format("{} of {} were planned", found.changes.planned.size(), found.changes.planned.size() + left.size());
  if (signals.received() != 0)
    found.cut_short += " before the interrupt";
  else
    // Each change takes about as long as the job's own plan.
    found.cut_short += fmt::format(" in {}{}; --what-if-seconds {:.0f} allows more", short_seconds(limit),
                                   seconds ? "" : " (three times the planning time of the job, at least 10 s)",
                                   std::ceil(limit + base_plan.plan_seconds * static_cast<double>(left.size())));
  found.cut_short += fmt::format("; not planned: {}", fmt::join(left, ", "));
  return found;
}

std::string what_if_table(const Job& job, const WhatIf& found, const Screen& screen) {
  Table table({{.name = "change", .fit = Fit::middle, .min_width = 20},
               {.drop = 2},
               {"fits"},
               {.name = "parameters", .align = Align::right, .drop = 1},
               {"minimum", Align::right},
               {"peak", Align::right},
               {"step", Align::right},
               {unit_of(job) + "/s", Align::right}},
              "Smaller values of keys, each planned");
  for (const ModelVariant& each : found.changes.planned)
    table.add_row({each.change.empty() ? "none" : each.change, each.meaning, each.fits ? "yes" : "no",
                   short_count(static_cast<double>(each.parameters)), format_bytes_up(each.minimum_budget_bytes),
                   format_bytes(each.peak_bytes), each.fits ? short_seconds(each.step_seconds) : "-",
                   each.fits ? short_count(each.tokens_per_second) : "-"});
  std::string text = table.to_string(screen);
  if (!found.cut_short.empty()) text += "\n" + fold(found.cut_short, screen.columns, 2);
  return text;
}

Json what_if_json(const WhatIf& found) {
  Json list = Json::array();
  for (const ModelVariant& each : found.changes.planned)
    list.push_back({{"change", each.change},
                    {"meaning", each.meaning},
                    {"fits", each.fits},
                    {"parameters", each.parameters},
                    {"minimum_budget_bytes", each.minimum_budget_bytes},
                    {"peak_bytes", each.peak_bytes},
                    {"step_seconds", each.step_seconds},
                    {"units_per_second", each.tokens_per_second},
                    {"uncertainty", each.uncertainty > 0 ? Json(each.uncertainty) : Json(nullptr)}});
  return list;
}

}  // namespace plimsoll::cli
