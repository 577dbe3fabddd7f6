// Plans a job with smaller numbers of its model, to compare memory and time.
#include <fmt/format.h>

#include <algorithm>

#include "job/keys/model_kind.h"
#include "plimsoll/error.h"
#include "plimsoll/plan_job.h"
#include "train/plan_once.h"
#include "train/stopped_search.h"

namespace plimsoll {
namespace {

constexpr int64_t kParts[] = {2, 4};  // halves and quarters

struct Change {
  std::string change, meaning;
  int64_t part;
};

// Returns the changes by number, the half of each before its quarter.
std::vector<Change> changes_of(const Job& job) {
  std::vector<Change> all;
  for (const job::ReducibleKey& reducible : job::model_kind(job.model.type).reducible_keys) {
    int64_t last = reducible.value(job);
    for (const int64_t part : kParts) {
      const int64_t value = reducible.value(job) / part / reducible.multiple * reducible.multiple;
      if (value < 1 || value >= last) continue;
      last = value;
      all.push_back({fmt::format("{}={}", reducible.key, value), reducible.meaning, part});
    }
  }
  return all;
}

ModelVariant result_of(const PlannedJob& planned, const Change& change) {
  ModelVariant result;
  result.change = change.change;
  result.meaning = change.meaning;
  result.fits = planned.plan.fits;
  result.parameters = planned.settings.parameters;
  result.peak_bytes = planned.plan.peak_bytes;
  result.minimum_budget_bytes = planned.minimum_budget_bytes;
  result.step_seconds = planned.step_seconds;
  result.tokens_per_second = planned.tokens_per_second;
  return result;
}

}  // namespace

ModelVariants model_variants(const std::filesystem::path& file, const std::vector<std::string>& overrides,
                             const PlanTarget& target, const PlannedJob& base_plan,
                             const std::function<bool(const ModelVariantsProgress&)>& should_continue) {
  const std::vector<Change> all = changes_of(read_job(file, overrides));
  std::vector<size_t> order(all.size());
  for (size_t i = 0; i < all.size(); ++i) order[i] = i;
  // Halves first, so that an incomplete result has a change of each number.
  std::ranges::stable_sort(order, {}, [&](size_t i) { return all[i].part; });

  ModelVariantsProgress progress{1, static_cast<int64_t>(all.size()) + 1, "", 0};
  const auto require_continue = [&] {
    if (should_continue && !should_continue(progress)) throw SearchStopped();
  };
  const SearchOptions search{.on_schedule = [&] {
    ++progress.schedules;
    require_continue();
  }};
  std::vector<std::optional<ModelVariant>> planned(all.size());
  size_t tried = 0;
  try {
    for (; tried < order.size(); ++tried, ++progress.done) {
      const Change& change = all[order[tried]];
      progress.change = change.change;
      progress.schedules = 0;
      require_continue();
      std::vector<std::string> with = overrides;
      with.push_back(change.change);
      try {
        planned[order[tried]] = result_of(plan_once(read_job(file, with), target, search), change);
      } catch (const UserError& error) {
        // A number that contradicts others: half of the heads' width, say.
        if (error.kind() != UserError::Kind::usage) throw;
      }
    }
  } catch (const SearchStopped&) {  // the changes found so far are a valid result
  }
  ModelVariants result;
  result.planned.push_back(result_of(base_plan, {"", "as it is", 1}));
  for (auto& each : planned)
    if (each) result.planned.push_back(std::move(*each));
  for (size_t i = tried; i < order.size(); ++i) result.untried.push_back(all[order[i]].change);
  return result;
}

}  // namespace plimsoll
