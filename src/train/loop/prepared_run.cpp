#include "train/loop/prepared_run.h"

#include <utility>

#include <nlohmann/json.hpp>

#include "job/origin.h"
#include "run/plan_options.h"
#include "train/job_data.h"
#include "train/job_data_facts.h"
#include "train/loop/replan.h"
#include "train/loop/stop_request.h"

namespace plimsoll {

// Stops all ranks if any of them was stopped during `work`, so that none waits for one that has ended.
template <typename Work>
void PreparedRun::stop_together(const Work& work) const {
  bool stopped = false;
  try {
    work();
  } catch (const StoppedEarly&) {
    stopped = true;
  }
  if (agreement_.any(stopped)) throw StoppedEarly();
}

void PreparedRun::plan(PlanTarget target) {
  target.measuring = nullptr;  // the run allocates the memory next
  target.ranks.rank = agreement_.rank();
  target.ranks.exchange = exchange_;
  if (exchange_ && exchange_->runs_beside_operators()) {
    // CPU ranks of several hosts; devices have the link of the catalogue.
    if (requested_.device == "cpu")
      target.ranks.link =
          set_peer_link(target.cost, nullptr, {.ranks = agreement_.ranks(), .link = "ethernet-10"}, true);
    target.cost.exchanges_overlap = true;
  }
  agreement_.agree_on_min_budget(target, requested_.budget.device.has_value());
  const SearchOptions search{.on_schedule = [] {
    if (is_stop_requested()) throw StoppedEarly();
  }};
  stop_together([&] { report_.job = plan_job(requested_, target, search); });
  // Measurements may differ from rank to rank, and choices with them: those of the first rank are used.
  if (!agreement_.same_choices(report_.job)) {
    const Job chosen = agreement_.first_rank_choices(requested_, report_.job);
    stop_together([&] { report_.job = plan_job(chosen, target, search); });
  }
  job_ = resolved_job(requested_, report_.job);
  report_.fits = report_.job.plan.fits;
  report_.planned_peak_bytes = report_.job.plan.peak_bytes;
  report_.planned = report_.job.plan.breakdown;
}

void PreparedRun::take_memory() {
  while (true) {
    TrainingOptions options = settings();
    options.exchange = exchange_;
    const Step step = step_of(job_, settings().micro_batch());
    metrics_of_ = step.metrics;
    training_.emplace(step, options, report_.job);
    plan_change_.clear();
    try {
      training_->start();
      report_plan_change();
      return;
    } catch (const MemoryUnavailable& error) {
      if (exchange_) throw UserError(error.what(), UserError::Kind::failure);  // other ranks have continued
      if (is_stop_requested()) throw StoppedEarly();
      training_.reset();
      replan(error);
    }
    if (!report_.fits) return;
    open_data();  // the size of micro batches may have changed
  }
}

void PreparedRun::report_plan_change() {
  if (training_->plan_change() == plan_change_) return;
  take_plan();
  observer_.replanned(plan_change_, report_.job);
}

void PreparedRun::take_plan() {
  plan_change_ = training_->plan_change();
  if (plan_change_.empty()) return;
  Plan plan = training_->plan();
  plan.reasons.insert(plan.reasons.end(), settings().reasons.begin(), settings().reasons.end());
  report_.job.plan = std::move(plan);
}

void PreparedRun::replan(const MemoryUnavailable& error) {
  plan(replan_target(requested_, report_.job, error));
  observer_.replanned(error.reason(), report_.job);
}

void PreparedRun::open_data() {
  stop_together([&] {
    if (agreement_.leads()) open_own_data();
  });
  stop_together([&] {
    if (!agreement_.leads()) open_own_data();
  });
}

void PreparedRun::identify_data() {
  std::string text;
  stop_together([&] {
    if (!agreement_.leads()) return;
    text = json_of(data_facts_of(job_, tokenizer_text_, [](double) {
             if (is_stop_requested()) throw StoppedEarly();
           })).dump();
  });
  data_facts_ = parse_data_facts(nlohmann::json::parse(agreement_.of_first_rank(text)));
}

void PreparedRun::open_own_data() {
  const Step step = step_of(job_, *job_.micro_batch_size);
  OpenedSamples opened = open_samples(job_, step, [&](const std::string& what, double fraction) {
    observer_.preparing(what, fraction);
    if (is_stop_requested()) throw StoppedEarly();
  });
  origin_ = job::origin_of(job_, opened.tokenizer.get());
  tokenizer_text_ = opened.tokenizer_text;
  data_.emplace(job_, std::move(opened.source), uses_sample_mask(step.inputs));
  report_.file_notes = std::move(opened.notes);
  for (const std::string& each : report_.file_notes) observer_.noted(each);
  report_.left_out = data_->source().skipped();
  for (const std::string& each : report_.left_out) observer_.sample_skipped(each);
}

}  // namespace plimsoll
