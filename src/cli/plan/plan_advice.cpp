#include "cli/plan/plan_advice.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>

#include "base/clock.h"
#include "base/quoted.h"
#include "cli/screen/short_numbers.h"
#include "cli/screen/waiting.h"
#include "cli/stop_signals.h"
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

}  // namespace plimsoll::cli
