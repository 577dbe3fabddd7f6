#include "cli/train/train_progress.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <iostream>
#include <utility>
#include <vector>

#include "base/text.h"
#include "cli/plan/plan_advice.h"
#include "cli/result_text.h"
#include "cli/screen/progress.h"
#include "cli/screen/table.h"
#include "cli/screen/terminal.h"
#include "plimsoll/bytes.h"
#include "plimsoll/job.h"
#include "plimsoll/plan_job.h"

namespace plimsoll::cli {
namespace {

constexpr int64_t kPreparingSteps = 100;  ///< steps of a progress bar for a fraction, shown as percent

}  // namespace

std::string used_of_budget(int64_t used, int64_t budget) {
  std::string text = format_bytes(used);
  if (budget <= 0) return text;
  const std::string limit = format_bytes(budget);
  const size_t unit = text.rfind(' ');
  if (text.substr(unit) == limit.substr(limit.rfind(' '))) text.resize(unit);
  return text + " / " + limit;
}

std::string describe_evaluated_part(const Job& job, const EvaluatedPart& part) {
  if (part.samples > 0) {
    const std::string tokens =
        is_language_model(job) ? fmt::format(" ({} tokens)", part.samples * units_of_sample(job)) : "";
    return fmt::format("evaluated on {} of {} held-out samples{}", part.samples, part.held_out, tokens);
  }
  if (part.held_out > 0)
    return fmt::format("nothing is evaluated: the {} held-out samples are less than a micro batch", part.held_out);
  const bool test = job.data.evaluate_on == "test";
  if (const double share = test ? job.data.test_fraction : job.data.validation_fraction; share > 0)
    return fmt::format("nothing is evaluated: {} {:g} of the data is not one whole sample",
                       test ? "data.test_fraction" : "data.validation_fraction", share);
  return "";
}

TrainProgressView::TrainProgressView(const Job& job, StopSignals& signals)
    : signals_(signals),
      saves_(!job.checkpoint.directory.empty()),
      job_(job),
      max_steps_(step_limit_of(job).value_or(0)),
      every_n_steps_(std::max<int64_t>(job.log.every_n_steps, 1)),
      unit_(unit_of(job)),
      states_budget_(job.budget.device.has_value()),
      planning_(std::make_unique<Waiting>("planning")) {
  signals_.answer_with("stopping; nothing is trained yet; press Ctrl-C again to stop immediately");
}

void TrainProgressView::preparing(const std::string& what, double fraction) {
  const bool known = what == preparing_what_;
  if (known && !preparing_) return;  // its end has been shown already
  if (!known) {
    finish();
    preparing_what_ = what;
    preparing_ = std::make_unique<Progress>(what, kPreparingSteps, progress_on_standard_error());
  }
  preparing_->update(static_cast<int64_t>(fraction * kPreparingSteps), {});
  if (fraction >= 1) begin_steps();
}

void TrainProgressView::planned(const PlannedJob& job) {
  // A plan that does not fit is explained after the view has ended.
  if (job.plan.fits) note(verdict_of(job));
  note(describe_effective_batch(job.settings));
  note(fmt::format("{}, {} parameters{}, {} operators; recorded in {}, planned in {}", name_of(job.settings.precision),
                   describe_parameters(job.settings),
                   job.settings.parameters < job.settings.model_parameters ? " are trained" : "",
                   job.recorded.ops.size(), short_seconds(job.record_seconds), short_seconds(job.plan.plan_seconds)));
  if (!job.settings.slow_matmul_note.empty()) note(job.settings.slow_matmul_note);
  // A budget of the job has a reason only if another rank has a smaller one, or if the machine has less.
  if (states_budget_)
    for (const Reason& reason : job.settings.reasons)
      if (reason.decision.starts_with("memory_budget")) note(fmt::format("{}: {}", reason.decision, reason.why));
  begin_steps();
}

void TrainProgressView::replanned(const std::string& why, const PlannedJob& job) {
  note(fmt::format("{}; new plan: {}; {}, micro batch {}", why,
                   job.plan.fits ? verdict_of(job) : "the job does not fit", name_of(job.settings.precision),
                   describe_micro_batches(job.settings)));
  begin_steps();
}

void TrainProgressView::counted(const RunLength& length, const EvaluatedPart& evaluated) {
  max_steps_ = length.steps;
  note(describe_run_length(job_, length));
  if (const std::string part = describe_evaluated_part(job_, evaluated); !part.empty()) note(part);
  if (!saves_)
    note("nothing will be saved, because checkpoint.directory is not set; checkpoint.directory=run keeps the model");
  begin_steps();
}

void TrainProgressView::resumed(const std::string& checkpoint, int64_t step) {
  note(fmt::format("resumed from {} at step {}", checkpoint, step));
  first_step_ = step;
  begin_steps();
}

// Starts the progress line. The clock for the remaining time starts here, after all preparations.
void TrainProgressView::begin_steps() {
  finish();
  if (max_steps_ == 0) return;  // until the data are open
  steps_ = std::make_unique<Progress>("train", max_steps_, progress_on_standard_error(), first_step_);
}

bool TrainProgressView::to_be_shown(const TrainProgress& progress) const {
  return progress_on_standard_error().terminal || progress.step % every_n_steps_ == 0 || progress.step >= max_steps_;
}

void TrainProgressView::stepped(const TrainProgress& progress) {
  // Before the skipped step's note, so that the note is above its own state.
  if (!steps_) begin_steps();
  if (to_be_shown(progress)) {
    steps_->update(progress.step, {fmt::format("loss {:.4g}", progress.loss),
                                   short_count(progress.tokens_per_second) + " " + unit_ + "/s",
                                   "memory " + used_of_budget(progress.memory_used, progress.memory_budget)});
  }
  if (progress.skipped) {
    note(fmt::format("step {} skipped: a gradient was not finite; {} skipped in all, loss scale {:g}", progress.step,
                     progress.steps_skipped, progress.loss_scale));
  }
}

void TrainProgressView::evaluated(int64_t step, double loss) {
  note(fmt::format("step {}: evaluation loss {:.4f}", step, loss));
}

void TrainProgressView::measured(int64_t step, const std::vector<std::pair<std::string, double>>& metrics) {
  std::string line = fmt::format("step {}:", step);
  for (const auto& [name, value] : metrics)
    line += fmt::format("{} {} {:.4f}", &name == &metrics.front().first ? "" : ",", name, value);
  note(line);
}

void TrainProgressView::noted(const std::string& what) {
  note(what);
}

void TrainProgressView::sample_skipped(const std::string& what) {
  note("left out: " + what);
}

void TrainProgressView::saved(const std::string& checkpoint, int64_t step) {
  note(fmt::format("step {}: saved {}", step, checkpoint));
}

void TrainProgressView::starting() {
  signals_.answer_with(saves_ ? "saving after this step; press Ctrl-C again to stop immediately"
                              : "stopping after this step without a checkpoint (checkpoint.directory is not set); "
                                "press Ctrl-C again to stop immediately");
}

void TrainProgressView::metrics_write_failed(const std::string& why) {
  note("metrics: " + why + "; the run continues without these metrics");
}

void TrainProgressView::note(const std::string& line) {
  planning_.reset();
  // One line for each event in a log; on a terminal, lines are folded to its width.
  const size_t columns = is_terminal(STDERR_FILENO) ? screen_of(STDERR_FILENO).columns : kAnyWidth;
  for (const std::string& part : folded_lines(without_controls(line), columns, 2)) {
    if (steps_) {
      steps_->note(part);
    } else {
      std::cerr << part << std::endl;
    }
  }
}

void TrainProgressView::finish() {
  planning_.reset();
  preparing_.reset();
  steps_.reset();
}

void print_changes_within(const std::string& budget, const JobArguments& arguments, const Screen& screen) {
  const std::string lower = "memory_budget=" + budget;
  const Job job = arguments.read_silently({lower});
  PlanTarget target = target_of(job);
  const PlannedJob planned = [&] {
    const Waiting waiting("planning");
    return plan_job(job, target);
  }();
  if (planned.plan.fits) return;
  // All further plans use the times of this one.
  target.cost = planned.settings.cost;
  std::vector<std::string> overrides = arguments.all_overrides();
  overrides.push_back(lower);
  FoundAdvice found = advice_within({}, 0, arguments.file, overrides, target, planned, {});
  // With its own budget the job with the change might be planned for more memory than there is.
  for (Advice& each : found.search.found) each.overrides.push_back(lower);
  arguments.output.print(
      advice_text(found, job, screen, fmt::format("plimsoll plan with {} and --advice full", lower)));
}

}  // namespace plimsoll::cli
