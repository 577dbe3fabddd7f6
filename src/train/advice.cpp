#include "plimsoll/plan_job.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "fine_tuning/fine_tune.h"
#include "plimsoll/bytes.h"
#include "plimsoll/error.h"
#include "train/advice_steps.h"
#include "train/prepared_run.h"

namespace plimsoll {
namespace {

// Estimated bytes, as a multiple of the budget, up to which a change probably fits (kLikely) or may fit (kPossible).
// They are not 1 because an estimate counts the bytes at one peak only. Placement and other peaks may need more or
// fewer.
constexpr double kLikely = 1.05, kPossible = 1.5;
constexpr size_t kMaxChangeSteps = 3;  // largest number of steps of one change
// Quality cost (AdviceStep::quality_cost) of host memory, which costs time in every step. It is above the cost of
// rounding, except that of bf16-true, and below that of smaller samples.
constexpr double kHostMemoryCost = 2.2;
constexpr size_t kMaxUntried = 20;

// A change to try: steps, other overrides, or both.
struct Trial {
  std::vector<const AdviceStep*> steps;     // by family
  std::vector<std::string> more_overrides;  // other overrides, added to those of the steps
  std::string meaning;                      // meaning of `more_overrides`
  bool opens_choices = false;               // true: `more_overrides` leaves choices of the job to the planner
  // Quality cost of the steps and of the other overrides together; estimated bytes at the peak.
  double quality_cost = 0, estimate = 0;
  bool tried = false;

  std::vector<std::string> overrides() const {
    std::vector<std::string> all;
    for (const AdviceStep* step : steps) all.insert(all.end(), step->overrides.begin(), step->overrides.end());
    all.insert(all.end(), more_overrides.begin(), more_overrides.end());
    return all;
  }
  std::string describe() const {
    std::vector<std::string> words;
    for (const AdviceStep* step : steps) words.push_back(step->meaning);
    if (!meaning.empty()) words.push_back(meaning);
    return fmt::format("{}", fmt::join(words, "; "));
  }
  // Returns whether this trial has all kinds of changes of `other`. If `other` fits, this trial is then not tried.
  bool includes(const Trial& other) const {
    const auto has = [&](const AdviceStep* step) {
      return std::ranges::any_of(steps, [&](const AdviceStep* own) { return own->family == step->family; });
    };
    return (opens_choices || !other.opens_choices) && std::ranges::all_of(other.steps, has);
  }
};

class Finder {
 public:
  Finder(const std::filesystem::path& file, const std::vector<std::string>& overrides, const PlanTarget& target,
         const PlannedJob& base_plan, const AdviceOptions& options)
      : file_(file), overrides_(overrides), target_(target), base_plan_(base_plan), options_(options) {}

  AdviceSearch run() {
    const Job job = read_job(file_, overrides_);
    PeakMemoryModel memory = peak_memory_of(base_plan_, decoder_layers_of(job)), memory_with_open_choices = memory;
    const std::vector<AdviceStep> opening_steps = open_choice_steps(job),
                                  steps = allowed(advice_steps(job, memory, target_));
    std::vector<Trial> trials;
    bool searched = false;  // true: the search is complete; refine() only lowers the times of found changes
    try {
      try_without_job_budget();
      for (const AdviceStep& step : opening_steps) join(open_choices_, step);
      if (!opening_steps.empty() && !try_open_choices(opening_steps))
        memory_with_open_choices = peak_memory_of(*open_plan_, decoder_layers_of(job));
      trials = trials_of(steps, memory, memory_with_open_choices);
      const double budget = static_cast<double>(target_.budget.device.value_or(0));
      // One place of the list is left for host memory, which is tried after the likely changes. For a large step, each
      // change takes seconds to plan, and the caller may stop the search soon. Host memory is then tried first, because
      // it most probably fits and does not change the model.
      const bool large = base_plan_.recorded.ops.size() > SolverParameters().large_trace_ops;
      if (large) try_host_memory(job);
      try_all(trials, 0, kLikely * budget, options_.max_changes - 1);
      if (!large) try_host_memory(job);
      try_all(trials, 0, kLikely * budget, options_.max_changes);
      if (result_.found.empty()) try_all(trials, kLikely * budget, kPossible * budget, options_.max_changes);
      searched = true;
      refine();
    } catch (const SearchStopped&) {  // the changes found so far are a valid result
      result_.ended_early = !searched;
      if (!searched) add_untried(trials);
    }
    std::vector<size_t> order(found_.size());
    for (size_t i = 0; i < order.size(); ++i) order[i] = i;
    std::ranges::stable_sort(order, [&](size_t a, size_t b) {
      if (found_[a].quality_cost != found_[b].quality_cost) return found_[a].quality_cost < found_[b].quality_cost;
      return result_.found[a].step_seconds < result_.found[b].step_seconds;
    });
    AdviceSearch sorted = result_;
    for (size_t i = 0; i < order.size(); ++i) sorted.found[i] = result_.found[order[i]];
    return sorted;
  }

 private:
  // The overrides that leave all choices of the job to the planner, and their meaning.
  struct OpenChoices {
    std::vector<std::string> overrides;
    std::string meaning;
  };

  static void join(OpenChoices& all, const AdviceStep& step) {
    all.overrides.insert(all.overrides.end(), step.overrides.begin(), step.overrides.end());
    all.meaning += (all.meaning.empty() ? "" : "; ") + step.meaning;
  }

  void require_continue() const {
    if (options_.should_continue && !options_.should_continue(progress_)) throw SearchStopped();
  }

  // Returns the job with a change; nullopt if the change contradicts the rest of the job.
  std::optional<Job> changed(const std::vector<std::string>& change) const {
    std::vector<std::string> all = overrides_;
    all.insert(all.end(), change.begin(), change.end());
    try {
      return read_job(file_, all);
    } catch (const UserError& error) {
      if (error.kind() != UserError::Kind::usage) throw;
      return {};
    }
  }

  // Returns the steps whose overrides read_job() accepts on top of the job's own overrides.
  std::vector<AdviceStep> allowed(std::vector<AdviceStep> steps) const {
    std::erase_if(steps, [&](const AdviceStep& step) { return !changed(step.overrides); });
    return steps;
  }

  // Plans a job. `on_fit` is called as in plan_job().
  std::optional<PlannedJob> plan_of(const Job& job, const PlanTarget& target,
                                    const std::function<void(int64_t)>& on_fit = {}) {
    PlanTarget with = target;
    with.budget.host = job.budget.host;
    progress_.schedules = 0;
    require_continue();
    SearchOptions search{.minimize_step_time = false, .on_fit = on_fit};  // the question is only whether a job fits
    search.on_schedule = [&] {
      ++progress_.schedules;
      require_continue();
    };
    try {
      return plan_once(job, with, search);
    } catch (const UserError& error) {
      // The change contradicts the rest of the job, or a layer cannot be quantized in blocks.
      if (error.kind() != UserError::Kind::usage) throw;
      return {};
    }
  }

  // Returns the job with its micro batch set to at most `micro_batch` if it was open. Planning one size is faster than
  // planning all, and enough to show whether the job fits.
  static Job with_micro_batch(Job job, int64_t micro_batch) {
    if (job.micro_batch_size) return job;
    int64_t size = std::min(micro_batch, *job.batch_size);
    if (job.ranks.count > 1)  // all micro batches must have the same size
      while (*job.batch_size % size != 0) --size;
    job.micro_batch_size = size;
    job.gradient_accumulation_steps = AccumulationSchedule{{0, (*job.batch_size + size - 1) / size}};
    return job;
  }

  void add_found(const Trial& trial, const Job& job, int64_t peak_bytes, double step_seconds,
                 double tokens_per_second) {
    found_.push_back(trial);
    jobs_.push_back(job);
    result_.found.push_back({trial.overrides(), trial.describe(), peak_bytes, step_seconds, tokens_per_second});
    ++progress_.found;
  }
  void add_found(const Trial& trial, const Job& job, const PlannedJob& planned) {
    add_found(trial, job, planned.plan.peak_bytes, planned.step_seconds, planned.tokens_per_second);
  }

  // Plans a change, and adds it to the result if it fits.
  std::optional<PlannedJob> attempt(Trial& trial) {
    const std::vector<std::string> change = trial.overrides();
    progress_.change = override_text({change});
    const std::optional<Job> job = changed(change);
    const bool mixed = job && is_mixed(job->precision);
    const bool useless =
        !mixed && std::ranges::any_of(trial.steps, [](const AdviceStep* step) { return step->mixed_only; });
    std::optional<PlannedJob> planned;
    if (job && !useless) {
      const int64_t micro_batch = trial.opens_choices ? 1 : base_plan_.settings.micro_batch();
      std::optional<int64_t> sufficient;  // bytes that suffice; known before the plan is complete
      try {
        planned = plan_of(with_micro_batch(*job, micro_batch), target_, [&](int64_t bytes) { sufficient = bytes; });
      } catch (const SearchStopped&) {
        if (sufficient) add_found(trial, *job, *sufficient, 0, 0);
        throw;
      }
    }
    trial.tried = true;
    if (!planned) return {};
    progress_.planned = ++result_.planned;
    if (planned->plan.fits) add_found(trial, *job, *planned);
    return planned;
  }

  // Tries the job with all memory of the device, if its own budget is smaller. This change is the first because it
  // costs no quality.
  void try_without_job_budget() {
    if (!options_.without_job_budget) return;
    Trial trial;
    trial.more_overrides = {"memory_budget=auto"};
    trial.meaning = "all memory of the device";
    progress_.change = trial.more_overrides.front();
    const std::optional<Job> job = changed(trial.more_overrides);
    if (!job) return;
    const auto planned = plan_of(*job, *options_.without_job_budget);
    progress_.planned = ++result_.planned;
    if (!planned || !planned->plan.fits) return;
    add_found(trial, *job, *planned);
    found_.back().quality_cost = -1;  // sorts before every other change
    jobs_.back().reset();             // planned completely
  }

  // Tries to leave all choices of the job to the planner, which does not change the results of training. If the job
  // then fits, each choice is also tried alone, and the first that suffices replaces them all in the result. Returns
  // whether a change fits.
  bool try_open_choices(const std::vector<AdviceStep>& opening_steps) {
    Trial all;
    all.more_overrides = open_choices_.overrides;
    all.meaning = open_choices_.meaning;
    all.opens_choices = true;
    const size_t place = found_.size();  // index of `all` in the result, if it fits
    open_plan_ = attempt(all);
    const bool fits = open_plan_ && open_plan_->plan.fits;
    if (!open_plan_) open_plan_ = base_plan_;
    // If the job does not fit with all choices open, it does not fit with one of them open.
    if (!fits || opening_steps.size() < 2) return fits;
    for (const AdviceStep& step : opening_steps) {
      Trial one;
      one.more_overrides = step.overrides;
      one.meaning = step.meaning;
      one.opens_choices = true;
      const auto planned = attempt(one);
      if (!planned || !planned->plan.fits) continue;
      // This choice alone suffices.
      found_.erase(found_.begin() + static_cast<std::ptrdiff_t>(place));
      jobs_.erase(jobs_.begin() + static_cast<std::ptrdiff_t>(place));
      result_.found.erase(result_.found.begin() + static_cast<std::ptrdiff_t>(place));
      progress_.found = static_cast<int64_t>(found_.size());
      break;
    }
    return true;
  }

  // Returns single steps, and pairs and triples of different families, for the job as it is and with its choices left
  // to the planner.
  std::vector<Trial> trials_of(const std::vector<AdviceStep>& steps, const PeakMemoryModel& memory,
                               const PeakMemoryModel& memory_with_open_choices) const {
    std::vector<Trial> trials;
    std::vector<const AdviceStep*> chosen;
    const auto add = [&](bool opens_choices) {
      Trial trial;
      trial.steps = chosen;
      trial.opens_choices = opens_choices;
      PeakMemoryModel after = opens_choices ? memory_with_open_choices : memory;
      for (const AdviceStep* step : chosen) {
        step->effect(after);
        trial.quality_cost += step->quality_cost;
      }
      trial.estimate = after.total();
      if (opens_choices) {
        trial.more_overrides = open_choices_.overrides;
        trial.meaning = open_choices_.meaning;
        trial.quality_cost += 0.01;  // of two equal trials, the one with fewer overrides comes first
      }
      trials.push_back(std::move(trial));
    };
    const auto extend = [&](const auto& self, size_t from) -> void {
      for (size_t i = from; i < steps.size(); ++i) {
        if (!chosen.empty() && chosen.back()->family == steps[i].family) continue;
        chosen.push_back(&steps[i]);
        add(false);
        if (!open_choices_.overrides.empty()) add(true);
        if (chosen.size() < kMaxChangeSteps) self(self, i + 1);
        chosen.pop_back();
      }
    };
    extend(extend, 0);
    std::ranges::stable_sort(trials, {}, [](const Trial& trial) { return trial.quality_cost; });
    return trials;
  }

  // Returns whether a found change makes `trial` superfluous. Changes of host memory or of the job's budget make no
  // trial superfluous.
  bool is_covered(const Trial& trial) const {
    return std::ranges::any_of(found_, [&](const Trial& each) {
      return (each.more_overrides.empty() || each.opens_choices) && trial.includes(each);
    });
  }

  // Tries the trials with an estimate above `above` and of at most `max_bytes`, until `max_found` changes are found.
  void try_all(std::vector<Trial>& trials, double above, double max_bytes, size_t max_found) {
    for (Trial& trial : trials) {
      if (result_.found.size() >= max_found) return;
      if (trial.tried || trial.estimate <= above || trial.estimate > max_bytes || is_covered(trial)) continue;
      attempt(trial);
    }
  }

  // Tries host memory; not on the CPU, where it would be the same memory.
  void try_host_memory(const Job& job) {
    if (target_.device == "cpu" || target_.cost.host_link <= 0 || result_.found.size() >= options_.max_changes) return;
    const int64_t missing = base_plan_.minimum_budget_bytes - target_.budget.device.value_or(0);
    for (int64_t bytes = 8 * GiB; bytes <= 512 * GiB; bytes *= 4) {
      if (bytes <= job.budget.host || bytes < missing) continue;
      Trial trial;
      trial.more_overrides = {fmt::format("host_memory_budget={}GiB", bytes / GiB)};
      trial.more_overrides.insert(trial.more_overrides.end(), open_choices_.overrides.begin(),
                                  open_choices_.overrides.end());
      trial.meaning = fmt::format("up to {} of host memory in addition", format_bytes(bytes));
      if (!open_choices_.meaning.empty()) trial.meaning += "; " + open_choices_.meaning;
      trial.quality_cost = kHostMemoryCost;
      const auto planned = attempt(trial);
      if (planned && planned->plan.fits) return;
    }
  }

  // Plans again the found changes that leave the micro batch open, now with all micro batch sizes. Each was planned
  // with one size, to show that it fits; another size may take less time.
  void refine() {
    for (size_t i = 0; i < found_.size(); ++i) {
      if (!jobs_[i] || jobs_[i]->micro_batch_size) continue;
      Advice& advice = result_.found[i];
      progress_.change = override_text(advice);
      const auto planned = plan_of(*jobs_[i], target_);
      if (!planned || !planned->plan.fits || planned->step_seconds >= advice.step_seconds) continue;
      advice.peak_bytes = planned->plan.peak_bytes;
      advice.step_seconds = planned->step_seconds;
      advice.tokens_per_second = planned->tokens_per_second;
    }
  }

  // Adds the changes to the result that were not planned but may fit by their estimate, the most likely first.
  void add_untried(const std::vector<Trial>& trials) {
    if (result_.found.size() >= options_.max_changes) return;
    const double budget = static_cast<double>(target_.budget.device.value_or(0));
    for (const double most : {kLikely * budget, result_.found.empty() ? kPossible * budget : 0})
      for (const Trial& trial : trials) {
        if (trial.tried || trial.estimate > most || is_covered(trial) || result_.untried.size() >= kMaxUntried)
          continue;
        const std::string change = override_text({trial.overrides()});
        if (std::ranges::find(result_.untried, change) == result_.untried.end()) result_.untried.push_back(change);
      }
  }

  const std::filesystem::path file_;
  const std::vector<std::string> overrides_;
  PlanTarget target_;
  const PlannedJob& base_plan_;
  const AdviceOptions& options_;
  OpenChoices open_choices_;
  std::optional<PlannedJob> open_plan_;  // the job with all choices left to the planner
  AdviceProgress progress_;
  AdviceSearch result_;
  // Element i belongs to result_.found[i]: its trial, and its job for refine(); no job: it is planned completely.
  std::vector<Trial> found_;
  std::vector<std::optional<Job>> jobs_;
};

// Returns the text as it is typed in a shell: in quotes, unless it has only letters, digits and the characters below.
std::string typed(const std::string& text) {
  const bool plain = std::ranges::all_of(text, [](unsigned char c) {
    return std::isalnum(c) || std::string_view("_.,:/=+-@%").find(static_cast<char>(c)) != std::string_view::npos;
  });
  return plain ? text : "'" + text + "'";  // no override of this search contains a quote
}

}  // namespace

std::string override_text(const Advice& advice) {
  std::string text;
  for (const std::string& each : advice.overrides) text += (text.empty() ? "" : " ") + typed(each);
  return text;
}

AdviceSearch find_fitting_changes(const std::filesystem::path& file, const std::vector<std::string>& overrides,
                                  const PlanTarget& target, const PlannedJob& base_plan, const AdviceOptions& options) {
  return Finder(file, overrides, target, base_plan, options).run();
}

}  // namespace plimsoll
