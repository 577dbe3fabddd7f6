#include "plimsoll/train_job.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <chrono>

#include "base/atomic_file.h"
#include "base/key_errors.h"
#include "checkpoint/checkpoint.h"
#include "checkpoint/sliced_state.h"
#include "collectives/exchange.h"
#include "device/backend.h"
#include "job/keys/data_kind.h"
#include "job/origin.h"
#include "ops/arithmetic/kernel_choice.h"
#include "plimsoll/error.h"
#include "plimsoll/job.h"
#include "report/metrics_log.h"
#include "run/measured.h"
#include "run/optimizer/schedule.h"
#include "run/plan_options.h"
#include "train/job_data.h"
#include "train/job_outputs.h"
#include "train/micro_batches.h"
#include "train/plan_target.h"
#include "train/rank_agreement.h"
#include "train/replan.h"
#include "train/resumed_batch.h"
#include "train/step_times.h"
#include "weights/model_weights.h"

namespace plimsoll {
namespace {

std::atomic<bool> stop_requested = false;
static_assert(std::atomic<bool>::is_always_lock_free, "set from a signal handler");

// A scope of a stop request: it holds for one run, however that ends.
struct StopRequest {
  ~StopRequest() { stop_requested = false; }
};

// Thrown out of planning and out of the tokenization of a text; leaves no half-written token file.
struct StoppedEarly {};

double seconds_now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

// A loss scale of 2^16 has fallen to 2^-14 by then, so the scale is not the cause.
constexpr int64_t kMaxSkippedInARow = 30;

/// The counter of a checkpoint that names the kernels of the run (ops/arithmetic/kernel_choice.h).
constexpr std::string_view kKernelsCounter = "kernels";

constexpr const char* kBaselines = "baselines on the held-out part";

class Run {
 public:
  Run(const Job& job, TrainObserver& observer, ProfileOptions profile, std::shared_ptr<Exchange> exchange)
      : asked_(job),
        job_(job),
        observer_(observer),
        profile_(std::move(profile)),
        exchange_(std::move(exchange)),
        agreement_(exchange_.get()) {}

  // Runs the training. Other ranks wait for this one, so they receive its error.
  TrainReport run() {
    try {
      return run_rank();
    } catch (const std::exception& error) {
      if (exchange_) exchange_->fail(error.what());
      throw;
    }
  }

 private:
  TrainReport run_rank() {
    backend_for(job_.device);  // its error says what is missing
    agreement_.require_same_job(asked_);
    require_steps_to_profile();
    require_data(asked_);
    decide_evaluation(asked_.data);  // once, so that plan and training are the same even if the list changes
    if (agreement_.leads()) outputs_.emplace(asked_);
    const std::optional<std::filesystem::path> checkpoint = checkpoint_to_resume(asked_.checkpoint);
    if (checkpoint) of_resume([&] { go_on_with_formats(*checkpoint); });
    try {
      plan(target_of(asked_));
      observer_.planned(report_.job);
      if (!report_.fits) return std::move(report_);
      open_data();
      take_memory();
      if (!report_.fits) return std::move(report_);
      if (checkpoint)
        of_resume([&] { resume(*checkpoint); });
      else if (starts_from_weights(job_.model))
        load_model_weights(job_.model, training_->state(), {training_->slices(), exchange_.get()});
      open_metrics();
      if (const auto profile = agreement_.first_rank_profile(profile_)) training_->profile(*profile);
      data_->start(position_, agreement_.ranks(), agreement_.rank());
      train();
    } catch (const StoppedEarly&) {
      report_.stopped = true;
      report_.resident_bytes = peak_resident_bytes();
      return std::move(report_);
    } catch (const UserError& error) {
      if (error.kind() != UserError::Kind::does_not_fit || !training_) throw;
      report_.fits = false;  // because of scratch that was not known; the plan has the minimum budget
    }
    finish();
    return std::move(report_);
  }

  const ResolvedSettings& settings() const { return report_.job.settings; }

  // Continues with the formats of the checkpoint if the job leaves them open, even if others would now be faster or
  // more exact.
  void go_on_with_formats(const std::filesystem::path& checkpoint) {
    const auto origin = [&](const char* key) -> std::string {
      try {
        return checkpoint_origin(checkpoint, key).value_or("");
      } catch (const UserError&) {  // reported with its remedy when the whole checkpoint is read
        return "";
      }
    };
    keep_kernels_of(checkpoint);
    if (!asked_.precision)
      for (Precision each : {Precision::fp32_true, Precision::fp16_mixed, Precision::bf16_mixed, Precision::bf16_true})
        if (origin("precision") == name_of(each)) asked_.precision = each;
    const auto keep_choice = [&](auto& choice, auto automatic, const char* key) {
      if (choice != automatic) return;
      for (int i = 0; i < static_cast<int>(automatic); ++i)
        if (origin(key) == name_of(static_cast<decltype(automatic)>(i))) choice = static_cast<decltype(automatic)>(i);
    };
    keep_choice(asked_.optimizer.state_dtype, StateDtype::automatic, "optimizer.state_dtype");
    keep_choice(asked_.optimizer.weight_update, WeightUpdate::automatic, "optimizer.weight_update");
    keep_choice(asked_.accumulator_dtype, AccumulatorDtype::automatic, "gradient_accumulation_dtype");
  }

  // The bits of a run depend on its kernels.
  static void keep_kernels_of(const std::filesystem::path& checkpoint) {
    try {
      const auto counters = describe_checkpoint(checkpoint).counters;
      if (const auto kernels = counters.find(std::string(kKernelsCounter)); kernels != counters.end())
        ops::keep_kernels(kernels->second);
    } catch (const UserError&) {  // reported with its remedy when the whole checkpoint is read
    }
  }

  void require_steps_to_profile() const {
    if (profile_.file.empty()) return;
    if (job_.max_steps < profile_.first_step)
      throw UserError(fmt::format("--profile begins with step {}, but max_steps is {}; set a larger max_steps",
                                  profile_.first_step, job_.max_steps));
    if (!agreement_.leads()) return;
    const AtomicFile probe(profile_.file);  // never committed: leaves no trace
  }

  void plan(PlanTarget target) {
    target.measuring = nullptr;  // the run allocates the memory next
    target.rank = agreement_.rank();
    target.exchange = exchange_;
    if (exchange_ && exchange_->runs_beside_operators()) {
      // CPU ranks of several hosts; devices have the link of the catalogue.
      if (job_.device == "cpu")
        target.link = set_peer_link(target.cost, nullptr, {.ranks = agreement_.ranks(), .link = "ethernet-10"}, true);
      target.cost.exchanges_overlap = true;
    }
    agreement_.agree_on_min_budget(target, asked_.budget.device.has_value());
    const auto stopped = [] {
      if (stop_requested) throw StoppedEarly();
    };
    stop_together([&] { report_.job = plan_job(asked_, target, stopped); });
    // Measurements may differ from rank to rank, and choices with them: those of the first rank are used.
    if (!agreement_.same_choices(report_.job)) {
      const Job chosen = agreement_.first_rank_choices(asked_, report_.job);
      stop_together([&] { report_.job = plan_job(chosen, target, stopped); });
    }
    job_ = resolved_job(asked_, settings());
    report_.fits = report_.job.plan.fits;
    report_.planned_peak_bytes = report_.job.plan.peak_bytes;
    report_.planned = report_.job.plan.breakdown;
  }

  // Stops all ranks if any of them was stopped during `work`, so that none waits for one that has ended.
  template <typename Work>
  void stop_together(const Work& work) const {
    bool stopped = false;
    try {
      work();
    } catch (const StoppedEarly&) {
      stopped = true;
    }
    if (agreement_.any(stopped)) throw StoppedEarly();
  }

  // Allocates the memory. If another program has allocated it since planning, the job is planned again for the
  // available memory.
  void take_memory() {
    while (true) {
      TrainingOptions options = options_of(job_);
      options.cost = settings().cost;
      options.budget = settings().budget;
      options.ranks.rank = agreement_.rank();
      options.exchange = exchange_;
      const Step step = step_of(job_, settings().micro_batch_size);
      metrics_of_ = step.metrics;
      training_.emplace(step, options, PlannedStep{report_.job.recorded, report_.job.plan, report_.job.workspace});
      plan_change_.clear();
      try {
        training_->start();
        report_plan_change();
        return;
      } catch (const MemoryUnavailable& error) {
        if (exchange_) throw UserError(error.what(), UserError::Kind::failure);  // other ranks have continued
        if (stop_requested) throw StoppedEarly();
        training_.reset();
        replan(error);
      }
      if (!report_.fits) return;
      open_data();  // the size of micro batches may have changed
    }
  }

  // Reports a change of plan because kernels allocated other scratch than was planned.
  void report_plan_change() {
    if (training_->plan_change() == plan_change_) return;
    plan_change_ = training_->plan_change();
    take_plan();
    observer_.replanned(plan_change_, report_.job);
  }

  // Updates the plan in the report, with the minimum budget over all choices and the reasons of the job's search.
  void take_plan() {
    if (plan_change_.empty()) return;
    Plan plan = training_->plan();
    plan.minimum_budget_bytes = std::min(plan.minimum_budget_bytes, report_.job.plan.minimum_budget_bytes);
    plan.reasons.insert(plan.reasons.end(), settings().reasons.begin(), settings().reasons.end());
    report_.job.plan = std::move(plan);
  }

  void replan(const MemoryUnavailable& error) {
    plan(replan_target(asked_, report_.job.plan, error));
    observer_.replanned(error.reason(), report_.job);
  }

  // Opens the data. One rank makes files that all read, such as a tokenized text.
  void open_data() {
    stop_together([&] {
      if (agreement_.leads()) open_own_data();
    });
    stop_together([&] {
      if (!agreement_.leads()) open_own_data();
    });
  }

  void open_own_data() {
    const Step step = step_of(job_, *job_.micro_batch_size);
    OpenedSamples opened = open_samples(job_, step, [&](const std::string& what, double fraction) {
      observer_.preparing(what, fraction);
      if (stop_requested) throw StoppedEarly();
    });
    origin_ = job::origin_of(job_, opened.tokenizer.get());
    data_.emplace(job_, std::move(opened.source), uses_sample_mask(step.inputs));
    say_what_is_left_out();
  }

  void say_what_is_left_out() {
    report_.left_out = data_->source().skipped();
    for (const std::string& each : report_.left_out) observer_.sample_skipped(each);
  }

  // Calls `work`; errors name the key if the job names the checkpoint.
  template <typename Work>
  void of_resume(Work&& work) const {
    if (asked_.checkpoint.resume == "auto" || asked_.checkpoint.resume == "never") return work();
    of_key("checkpoint.resume", work);
  }

  void resume(const std::filesystem::path& file) {
    try {
      // Counters come first, because a checkpoint is loaded whole or not at all.
      const CheckpointInfo info =
          read_checkpoint(file, origin_, training_->state(),
                          [&](const CheckpointInfo& described) {
                            training_->restore_counters(described.counters);
                            if (training_->steps_done() != described.step)
                              throw UserError(fmt::format("{} is damaged: it says step {}, its counters say step {}",
                                                          file.string(), described.step, training_->steps_done()),
                                              UserError::Kind::failure);
                            require_same_batch_meaning(
                                asked_, settings(), described.step, described.position,
                                [&](int64_t position) { return data_->epoch(position); }, file.string());
                          },
                          {training_->slices(), exchange_.get()});
      position_ = info.position;
    } catch (const UserError& error) {
      if (error.kind() != UserError::Kind::failure || job_.checkpoint.resume != "auto") throw;
      // The newest checkpoint cannot be read. Only the user may decide to continue from an older one, or from the
      // start.
      const auto existing = checkpoints_in(job_.checkpoint.directory);
      const std::string then =
          existing.size() > 1 ? "resume from " + std::next(existing.rbegin())->second.string() : "start from step 0";
      throw UserError(fmt::format("{}; to {}, delete or move this file", error.what(), then), error.kind());
    }
    report_.resumed_step = saved_step_ = training_->steps_done();
    observer_.resumed(file.string(), report_.resumed_step);
  }

  void open_metrics() {
    if (job_.log.metrics_file.empty() || !agreement_.leads()) return;
    std::optional<int64_t> rewritten;
    if (report_.resumed_step > 0) rewritten = report_.resumed_step + 1;
    of_key("log.metrics_file", [&] { metrics_.emplace(job_.log.metrics_file, rewritten); });
  }

  bool done() const {
    return training_->steps_done() >= job_.max_steps ||
           (job_.max_epochs && data_->epoch(position_) >= *job_.max_epochs);
  }

  void train() {
    observer_.starting();
    logged_at_ = began_at_ = seconds_now();
    exchange_seconds_before_ = exchange_seconds();
    while (!done()) {
      auto between = agreement_.between_steps(stop_requested, own_progress());
      ranks_ = std::move(between.ranks);
      if (between.stop) {  // all ranks stop after the same step
        report_.stopped = true;
        break;
      }
      if (exchange_) exchange_->note(fmt::format("step {}", training_->steps_done() + 1));
      step();
      require_progress();
      // Saves first: an evaluation that fails must not lose the steps before it.
      const int64_t steps = training_->steps_done();
      if (job_.checkpoint.every_n_steps > 0 && steps % job_.checkpoint.every_n_steps == 0) save();
      if (job_.eval_every_n_steps > 0 && steps % job_.eval_every_n_steps == 0) evaluate();
    }
    if (report_.losses.empty()) return;
    if (!job_.checkpoint.directory.empty() && saved_step_ != training_->steps_done()) save();
    if (!report_.stopped && evaluated_step_ != training_->steps_done()) evaluate();
  }

  // Throws if gradients stay non-finite. Such a run only uses time, and would delete its good checkpoints by rotation.
  void require_progress() const {
    if (skipped_in_a_row_ < kMaxSkippedInARow) return;
    throw UserError(
        fmt::format(
            "the last {} steps, up to {}, were skipped because a gradient was not finite: the run has diverged; "
            "lower optimizer.learning_rate, lengthen scheduler.warmup_steps, or set precision: bf16-mixed{}",
            kMaxSkippedInARow, training_->steps_done(),
            saved_step_ > 0 ? fmt::format("; the last checkpoint is of step {}", saved_step_) : ""),
        UserError::Kind::failure);
  }

  RankProgress own_progress() const {
    return {.memory_used = training_->peak_bytes_used(),
            .memory_planned = training_->plan().peak_bytes,
            .exchange_seconds = exchange_seconds() - exchange_seconds_before_,
            .train_seconds = seconds_now() - began_at_};
  }

  // Returns the number of micro batches of the step, by the epoch of its first window.
  int64_t micro_batches() const {
    return std::prev(settings().accumulation.upper_bound(data_->epoch(position_)))->second;
  }

  void step() {
    const double begin = seconds_now();
    const int64_t count = micro_batches(), epoch = data_->epoch(position_);
    const int64_t number = training_->steps_done() + 1;
    const double rate = learning_rate_at(job_.scheduler, job_.optimizer.learning_rate, number, job_.max_steps);
    Batch batch;  // one batch at a time, so that memory does not depend on their number
    MicroBatch inputs;
    const StepResult result = training_->step(
        count,
        [&](int64_t) -> const MicroBatch& {
          batch = data_->next();
          inputs = tensors_over(batch);
          return inputs;
        },
        rate, settings().last_micro_batch > 0);
    report_plan_change();
    const int64_t windows = settings().sequences(count) * agreement_.ranks();
    position_ += windows;

    TrainProgress progress;
    progress.step = number;
    progress.max_steps = job_.max_steps;
    progress.epoch = epoch;
    progress.loss = result.loss;
    progress.gradient_norm = result.gradient_norm;
    progress.learning_rate = rate;
    progress.step_seconds = seconds_now() - begin;
    const int64_t tokens = windows * units_of_sample(job_);
    progress.tokens_per_second = static_cast<double>(tokens) / progress.step_seconds;
    progress.skipped = result.skipped;
    progress.steps_skipped = training_->steps_skipped();
    progress.loss_scale = training_->loss_scale();
    progress.memory_used = training_->peak_bytes_used();
    progress.memory_budget = training_->plan().budget.device_bytes();
    progress.ranks = ranks_;
    skipped_in_a_row_ = result.skipped ? skipped_in_a_row_ + 1 : 0;
    report_.losses.push_back(result.loss);
    step_times_.add(progress.step_seconds, tokens);
    tokens_since_log_ += tokens;
    log(progress);
    observer_.stepped(progress);
  }

  void log(const TrainProgress& progress) {
    if (!metrics_ || progress.step % job_.log.every_n_steps != 0) return;
    const double now = seconds_now();
    write_metrics(progress.step,
                  {{"loss", progress.loss},
                   {"gradient_norm", progress.gradient_norm},
                   {"learning_rate", progress.learning_rate},
                   {"epoch", progress.epoch},
                   {unit_of(job_), position_ * units_of_sample(job_)},
                   {unit_of(job_) + "_per_second", static_cast<double>(tokens_since_log_) / (now - logged_at_)},
                   {"steps_skipped", progress.steps_skipped},
                   {"loss_scale", progress.loss_scale},
                   {"memory_bytes", progress.memory_used}});
    logged_at_ = now;
    tokens_since_log_ = 0;
  }

  // Writes a line of metrics. A full disk may have space again later: each line is tried, and the first failure is
  // reported.
  void write_metrics(int64_t step, const std::vector<std::pair<std::string, MetricValue>>& values) {
    try {
      metrics_->write(step, values);
    } catch (const UserError& error) {
      if (metrics_lost_++ == 0) {
        metrics_lost_from_ = step;
        metrics_lost_why_ = error.what();
        observer_.metrics_write_failed(metrics_lost_why_);
      }
    }
  }

  // Evaluates. The result is the mean over windows, so that a last micro batch that is not full has the weight of its
  // windows.
  void evaluate() {
    // A training that was recorded without 'evaluate' cannot evaluate.
    if (data_->evaluation_batches() == 0 || !job_.data.is_evaluated()) return;
    const double begin = seconds_now();
    std::map<std::string, at::Tensor> sums;
    std::vector<double> losses;  // losses of this rank's batches: rank, rank + ranks, …
    const int64_t count = data_->evaluation_batches(), ranks = agreement_.ranks();
    bool stopped = false;
    // All ranks evaluate the same number of batches, because they may have to gather parameters.
    for (int64_t i = agreement_.rank(); i < (count + ranks - 1) / ranks * ranks; i += ranks) {
      stopped |= stop_requested;  // a part of the windows is no valid evaluation
      if (ranks == 1 && stopped) return;
      int64_t counted = 0;
      Batch batch = data_->evaluation_batch(std::min(i, count - 1), counted);
      std::map<std::string, at::Tensor> beyond;
      const double loss = training_->evaluate(tensors_over(batch), i < count ? sums : beyond);
      if (i < count) losses.push_back(loss * static_cast<double>(counted));
    }
    if (agreement_.any(stopped)) return;
    double sum = 0;
    int64_t windows = 0;
    for (const double each : agreement_.in_turn(losses, count)) sum += each;
    for (int64_t i = 0; i < count; ++i) windows += data_->evaluation_windows(i);
    agreement_.add_up(sums);
    const double loss = sum / static_cast<double>(windows);
    if (!report_.first_evaluation) report_.first_evaluation = loss;
    report_.last_evaluation = loss;
    evaluated_step_ = training_->steps_done();
    if (metrics_of_) report_.metrics = metrics_of_(sums);
    if (metrics_) {
      std::vector<std::pair<std::string, MetricValue>> fields = {{"validation_loss", loss}};
      for (const auto& [name, value] : report_.metrics) fields.emplace_back(name, value);
      write_metrics(evaluated_step_, fields);
    }
    observer_.evaluated(evaluated_step_, loss);
    if (!report_.metrics.empty()) observer_.measured(evaluated_step_, report_.metrics);
    logged_at_ += seconds_now() - begin;  // evaluation time is not training time
  }

  void save() {
    const double begin = seconds_now();
    CheckpointInfo info;
    info.step = saved_step_ = training_->steps_done();
    info.position = position_;
    info.epoch = data_->epoch(position_);
    info.counters = training_->counters();
    info.counters[std::string(kKernelsCounter)] = ops::kernels_text();
    info.origin = origin_;
    const SlicedState sliced{training_->slices(), exchange_.get()};
    if (agreement_.leads())
      observer_.saved(save_checkpoint(job_.checkpoint, info, training_->state(), sliced).string(), info.step);
    else
      send_slices(training_->state(), sliced);
    logged_at_ += seconds_now() - begin;
  }

  void finish() {
    if (metrics_lost_ > 0)
      report_.not_written.push_back(fmt::format("{} line{} of the metrics, the first of step {}: {}", metrics_lost_,
                                                metrics_lost_ == 1 ? "" : "s", metrics_lost_from_, metrics_lost_why_));
    try {
      report_.steps_profiled = training_->write_profile();
    } catch (const UserError& error) {
      report_.not_written.push_back(fmt::format("the profile: {}", error.what()));
    }
    plan_change_ = training_->plan_change();
    take_plan();
    report_.planned_peak_bytes = report_.job.plan.peak_bytes;
    report_.planned = report_.job.plan.breakdown;
    report_.used = training_->used();
    report_.measured_peak_bytes = report_.used.measured_peak();
    report_.measured = measured_breakdown(report_.planned, report_.used);
    report_.resident_bytes = peak_resident_bytes();
    report_.ranks = agreement_.uses({.planned = report_.planned_peak_bytes,
                                     .used = report_.measured_peak_bytes,
                                     .planned_host = report_.job.plan.host_bytes,
                                     .used_host = report_.used.host,
                                     .resident = report_.resident_bytes});
    report_.steps = training_->steps_done();
    report_.steps_skipped = training_->steps_skipped();
    training_.reset();  // the report has its figures; baselines have the memory of the arena
    compute_baselines();
    report_.step_seconds = step_times_.median_seconds();
    report_.tokens_per_second = step_times_.tokens_per_second();
    // Step times of ranks that share a machine's cores say nothing about its ops.
    if (job_.device == "cpu" && step_times_.representative() && profile_.file.empty() && !exchange_)
      report_.prediction_notes = prediction_notes(job_, report_.job, report_.step_seconds);
  }

  // Computes the baselines on the rank that reports them. The training is done and saved by now, so an error is a line
  // of the report. Random samples have no baselines.
  void compute_baselines() {
    if (!report_.last_evaluation || report_.stopped || stop_requested) return;
    if (!agreement_.leads() || !job::data_kind(job_.data.type).from_files) return;
    try {
      observer_.preparing(kBaselines, 0);
      for (const Baseline& each : data_->baselines(position_))
        report_.baselines.push_back({each.metric, each.name, each.value});
      observer_.preparing(kBaselines, 1);
    } catch (const std::exception& error) {
      // libtorch's messages have a stack trace after their first line.
      const std::string_view message = error.what();
      report_.not_written.push_back(fmt::format("baselines: {}", message.substr(0, message.find('\n'))));
    }
  }

  Job asked_;
  Job job_;  // with all choices fixed after planning
  TrainObserver& observer_;
  ProfileOptions profile_;              // without a file: no profile
  std::shared_ptr<Exchange> exchange_;  // null: one rank
  RankAgreement agreement_;
  TrainReport report_;
  std::optional<RunOutputs> outputs_;
  std::map<std::string, std::string> origin_;
  std::optional<MicroBatches> data_;
  std::optional<Training> training_;
  std::string plan_change_;  // the last change that was reported to the observer
  std::optional<MetricsLog> metrics_;
  decltype(Step::metrics) metrics_of_;
  int64_t position_ = 0;  // windows read, counted over all epochs
  int64_t saved_step_ = 0, evaluated_step_ = 0;
  int64_t skipped_in_a_row_ = 0;
  int64_t metrics_lost_ = 0, metrics_lost_from_ = 0;  // number of lines, and the step of the first
  std::string metrics_lost_why_;
  StepTimes step_times_;
  double logged_at_ = 0;
  double began_at_ = 0, exchange_seconds_before_ = 0;  // time of the first step of this run; exchange seconds of the
                                                       // thread before it
  std::vector<RankProgress> ranks_;
  int64_t tokens_since_log_ = 0;
};

}  // namespace

TrainReport train_job(const Job& job, TrainObserver& observer) {
  return train_job(job, observer, {});
}

TrainReport train_job(const Job& job, TrainObserver& observer, const ProfileOptions& profile) {
  return train_job(job, observer, profile, nullptr);
}

TrainReport train_job(const Job& job, TrainObserver& observer, const ProfileOptions& profile,
                      std::shared_ptr<Exchange> exchange) {
  const StopRequest request;
  try {
    return Run(job, observer, profile, exchange).run();
  } catch (const std::exception& error) {
    if (exchange) exchange->fail(error.what());  // the others wait for this rank
    throw;
  }
}

void request_stop() noexcept {
  stop_requested = true;
}

}  // namespace plimsoll
