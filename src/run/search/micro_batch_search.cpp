#include "run/search/micro_batch_search.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <limits>
#include <set>
#include <utility>

namespace plimsoll {
namespace {

// Ratio of minimum budget and budget above which a large step is not planned again only to report its need.
constexpr double kByFar = 1.05;

}  // namespace

std::vector<int64_t> candidate_micro_batches(int64_t batch_size) {
  std::set<int64_t> divisors;
  for (int64_t each = 1; each * each <= batch_size; ++each)
    if (batch_size % each == 0) divisors.insert({each, batch_size / each});
  std::set<int64_t> sizes = divisors;
  for (int64_t count = 2; count < batch_size; count *= 2) {
    const int64_t size = (batch_size + count - 1) / count;
    const auto above = divisors.lower_bound(size);
    if (*above != size && *above > 2 * *std::prev(above)) sizes.insert(size);
  }
  return {sizes.begin(), sizes.end()};
}

MicroBatchSearch::MicroBatchSearch(const StepOfSize& step, TrainingOptions options, const PlanTarget& target,
                                   const SearchOptions& search)
    : step_(step), options_(std::move(options)), target_(target), search_(search) {
  if (options_.micro_batch_size) {
    open_.push_back({*options_.micro_batch_size, *options_.gradient_accumulation_steps, nullptr});
    return;
  }
  // With several devices, all micro batches have the same size. Updates in backward that wait for the norm of all
  // gradients need a single micro batch.
  const int64_t batch = *options_.batch_size;
  const bool single = options_.update_in_backward == Choice::on &&
                      (options_.max_grad_norm > 0 || options_.precision == Precision::fp16_mixed);
  for (int64_t size : candidate_micro_batches(batch))
    if ((!single || size == batch) && (options_.ranks.count == 1 || batch % size == 0))
      open_.push_back({size, {{0, (batch + size - 1) / size}}, nullptr});
}

StepCandidate& MicroBatchSearch::candidate(size_t index) {
  Open& requested = open_[index];
  if (!requested.candidate) {
    TrainingOptions options = options_;
    options.micro_batch_size = requested.micro_batch_size;
    options.gradient_accumulation_steps = requested.accumulation;
    requested.candidate = std::make_unique<StepCandidate>(step_, options, target_, search_);
  }
  return *requested.candidate;
}

int64_t MicroBatchSearch::minimum_budget_of(size_t index) {
  return candidate(index).plan(1, true).minimum_budget;
}

int64_t MicroBatchSearch::minimum_budget() {
  const int64_t smallest = minimum_budget_of(0);
  return std::min(smallest, minimum_budget_of(open_.size() - 1));
}

Found MicroBatchSearch::choose(std::optional<int64_t> budget) {
  enum class Fit : uint8_t { unknown, no, with_extra_time, whole };
  std::vector<Fit> fits(open_.size(), Fit::unknown);
  std::optional<Found> best;
  int64_t minimum = std::numeric_limits<int64_t>::max();
  size_t evaluated = 0;
  std::vector<bool> counted(fits.size(), false);  // true: included in the minimum
  // Plans a size, if it is not known whether it fits or if `exact`.
  const auto fit_of = [&](size_t i, bool exact = false) {
    if (fits[i] != Fit::unknown && !exact) return fits[i];
    StepCandidate& tried = candidate(i);
    evaluated += fits[i] == Fit::unknown;
    // It fits, and is not the fastest: searching its own fastest plan is useless.
    if (!exact && search_.minimize_step_time && best && best->fits() &&
        tried.takes_longer_than(best->planned.step_seconds, budget)) {
      minimum = std::min(minimum, tried.minimum_budget());
      counted[i] = true;
      return fits[i] = Fit::with_extra_time;
    }
    Found found = tried.plan(budget, exact);
    const Plan& plan = found.planned.plan;
    if (plan.fits || exact) {
      minimum = std::min(minimum, found.minimum_budget);
      counted[i] = true;
    }
    fits[i] = !plan.fits ? Fit::no : pays_for_memory(plan) ? Fit::with_extra_time : Fit::whole;
    if (!best || found.is_better_than(*best)) best = std::move(found);
    return fits[i];
  };
  size_t end = fits.size();  // sizes from here on do not fit
  // Either the smallest has the smallest need, or the largest, which need not accumulate. If both need far more than
  // the budget, none between them fits.
  const auto misfits_by_far = [&](size_t i) {
    return fit_of(i) == Fit::no && candidate(i).large() &&
           static_cast<double>(best->minimum_budget) > kByFar * static_cast<double>(*budget);
  };
  const bool none = budget && misfits_by_far(end - 1) && misfits_by_far(0);
  if (none) {
    end = 0;
    if (search_.minimize_step_time)
      for (const size_t i : {size_t{0}, fits.size() - 1})
        if (!counted[i]) fit_of(i, true);
  } else if (fit_of(end - 1) == Fit::no) {
    size_t begin = 0;  // sizes before it fit
    for (--end; begin < end;) {
      const size_t middle = begin + (end - begin) / 2;
      if (fit_of(middle) == Fit::no)
        end = middle;
      else
        begin = middle + 1;
    }
    // Bisection alone does not prove that nothing fits.
    if (end == 0 && search_.minimize_step_time) {
      best.reset();
      for (size_t i = fits.size(); i-- > 0;) fit_of(i, true);
    }
  }
  // Search and placement are not exact, and scratch depends on the shape. A size that does not fit may be smaller
  // than one that does.
  for (size_t i = end; !none && i < std::min(end + 3, fits.size()); ++i) fit_of(i);
  if (!search_.minimize_step_time && best->fits()) end = 0;
  while (end > 0 && fit_of(end - 1) != Fit::whole) --end;
  // Either the smallest has the smallest need, or the largest, which need not accumulate. A budget that is too small
  // is planned fastest.
  if (search_.minimize_step_time)
    for (const size_t i : {size_t{0}, fits.size() - 1})
      if (!counted[i]) minimum = std::min(minimum, minimum_budget_of(i));
  ResolvedSettings& settings = best->planned.settings;
  if (!options_.micro_batch_size)
    settings.reasons.push_back(
        {fmt::format("micro_batch_size: {}", settings.micro_batch()), micro_batch_reason(best->planned, evaluated)});
  return {std::move(best->planned), search_.minimize_step_time ? minimum : best->minimum_budget};
}

std::string MicroBatchSearch::micro_batch_reason(const PlannedTraining& planned, size_t evaluated) const {
  const int64_t batch = *options_.batch_size;
  if (!planned.plan.fits) {
    if (open_.size() == 1) return fmt::format("the whole batch_size, {}, does not fit", batch);
    return fmt::format("no size tried for batch_size {} fits; this one needs the least memory", batch);
  }
  if (planned.settings.micro_batch() == batch) return fmt::format("the whole batch_size {} fits", batch);
  return fmt::format("the fastest that fits of {} sizes tried for batch_size {}{}", evaluated, batch,
                     planned.settings.last_micro_batch > 0
                         ? fmt::format("; the last micro batch of a step has {}", planned.settings.last_micro_batch)
                         : "");
}

}  // namespace plimsoll
