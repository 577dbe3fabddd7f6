// What smaller numbers of a model would do to its memory and time.
#include <fmt/format.h>

#include "plimsoll/error.h"
#include "plimsoll/train_job.h"
#include "train/job/model_kind.h"

namespace plimsoll {
namespace {

constexpr int64_t kParts[] = {2, 4};  // halves and quarters

ModelChange planned_as(const Job& job, const PlanTarget& target) {
  const PlannedJob planned = plan_job(job, target);
  ModelChange change;
  change.fits = planned.plan.fits;
  change.parameters = planned.settings.parameters;
  change.peak_bytes = planned.plan.peak_bytes;
  change.minimum_budget_bytes = planned.plan.minimum_budget_bytes;
  change.step_seconds = planned.step_seconds;
  change.tokens_per_second = planned.tokens_per_second;
  return change;
}

}  // namespace

std::vector<ModelChange> model_changes(const std::filesystem::path& file, const std::vector<std::string>& overrides,
                                       const PlanTarget& target,
                                       const std::function<void(int64_t done, int64_t of)>& progress) {
  const Job job = read_job(file, overrides);
  struct Tried {
    std::string change, meaning;
  };
  std::vector<Tried> all = {{"", "as it is"}};
  for (const job::Shrink& shrink : job::model_kind(job.model.type).shrinks) {
    int64_t last = shrink.value(job);
    for (const int64_t part : kParts) {
      const int64_t value = shrink.value(job) / part / shrink.multiple * shrink.multiple;
      if (value < 1 || value >= last) continue;
      last = value;
      all.push_back({fmt::format("{}={}", shrink.key, value), shrink.meaning});
    }
  }
  std::vector<ModelChange> changes;
  for (size_t i = 0; i < all.size(); ++i) {
    if (progress) progress(static_cast<int64_t>(i), static_cast<int64_t>(all.size()));
    std::vector<std::string> with = overrides;
    if (!all[i].change.empty()) with.push_back(all[i].change);
    try {
      changes.push_back(planned_as(read_job(file, with), target));
    } catch (const UserError& error) {
      // A number that the others do not go with: half of the heads' width, say.
      if (all[i].change.empty() || error.kind() != UserError::Kind::usage) throw;
      continue;
    }
    changes.back().change = all[i].change;
    changes.back().meaning = all[i].meaning;
  }
  if (progress) progress(static_cast<int64_t>(all.size()), static_cast<int64_t>(all.size()));
  return changes;
}

}  // namespace plimsoll
