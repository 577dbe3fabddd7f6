#include "plimsoll/train_job.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <exception>
#include <optional>

#include "base/atomic_file.h"
#include "base/file_error.h"
#include "base/measurement.h"
#include "base/process.h"
#include "checkpoint/checkpoint.h"
#include "collectives/exchange.h"
#include "device/backend.h"
#include "job/keys/kinds.h"
#include "plimsoll/error.h"
#include "plimsoll/job.h"
#include "plimsoll/options.h"
#include "plimsoll/run_length.h"
#include "run/executor/guard.h"
#include "run/training_parts.h"
#include "train/job_data.h"
#include "train/job_outputs.h"
#include "train/micro_batches.h"
#include "train/prepared_run.h"
#include "train/rank_agreement.h"
#include "train/run_checkpoints.h"
#include "train/skipped_steps.h"
#include "train/step_times.h"
#include "weights/model_weights.h"

namespace plimsoll {
namespace {

// A loss scale of 2^16 has fallen to 2^-14 by then, so the scale is not the cause.
constexpr int64_t kMaxSkippedInARow = 30;

/// A scope in which the loss of another rank stops the run, so that it soon calls an exchange, which throws.
class WatchOfRanks {
 public:
  explicit WatchOfRanks(Exchange* exchange) : exchange_(exchange) {
    if (exchange_) exchange_->watch_others([] { request_stop(); });
  }
  ~WatchOfRanks() {
    if (exchange_) exchange_->watch_others({});
  }
  WatchOfRanks(const WatchOfRanks&) = delete;
  WatchOfRanks& operator=(const WatchOfRanks&) = delete;

 private:
  Exchange* exchange_;
};

class Run {
 public:
  Run(const Job& job, TrainObserver& observer, ProfileOptions profile, std::shared_ptr<Exchange> exchange,
      bool check_ops)
      : requested_(job),
        observer_(observer),
        profile_(std::move(profile)),
        exchange_(std::move(exchange)),
        agreement_(exchange_.get()),
        prepared_(requested_, observer_, exchange_, agreement_, report_),
        metrics_(observer_) {
    if (!check_ops) return;
    // The contents of the arenas a second time would break the promise.
    if (requested_.budget.process)
      throw UserError(
          "--check: process_budget is set, and checked ops take the arena's bytes twice; remove one of them");
    checked_ops_.emplace();
  }

  // Runs the training. Other ranks wait for this one, so they receive its error.
  TrainReport run() {
    try {
      const WatchOfRanks watch(exchange_.get());
      return run_rank();
    } catch (const UserError& error) {
      if (exchange_) exchange_->fail(error.what());
      // A run that has trained and then lost a file must not look like a wrong argument.
      if (error.kind() == UserError::Kind::usage && !report_.losses.empty())
        throw UserError(error.what(), UserError::Kind::failure);
      throw;
    } catch (const std::exception& error) {
      if (exchange_) exchange_->fail(error.what());
      throw;
    }
  }

 private:
  TrainReport run_rank() {
    note("the start of the run");
    backend_for(requested_.device);  // its error says what is missing
    agreement_.require_same_job(requested_);
    require_steps_to_profile();
    require_data(requested_);
    look_at_data(requested_);
    decide_evaluation(requested_.data);  // once, so that plan and training are the same even if the list changes
    if (agreement_.leads()) outputs_.emplace(requested_);
    const std::optional<std::filesystem::path> checkpoint = checkpoint_to_resume(requested_.checkpoint);
    if (checkpoint) keep_choices_of(*checkpoint, requested_);
    try {
      note("the planning");
      prepared_.plan(target_of(requested_));
      prepared_.note_conversions(checkpoint);
      observer_.planned(report_.job);
      if (!report_.fits) return std::move(report_);
      note("the preparation of the data");
      prepared_.open_data();
      if (checkpoint || !requested_.checkpoint.directory.empty()) prepared_.identify_data();
      prepared_.keep_process_budget();
      if (!report_.fits) return std::move(report_);
      note("the allocation of memory");
      prepared_.take_memory();
      if (!report_.fits) return std::move(report_);
      report_.process.prepared = training().resident_before_arenas();
      count_steps();
      note("the loading of weights");
      refuse_together([&] {
        if (checkpoint)
          resume(*checkpoint);
        else if (starts_from_weights(job().model))
          load_model_weights(job().model, training().state(), prepared_.sliced_state());
      });
      release_free_memory();  // of conversions, before the whole arena is in use
      if (agreement_.leads()) metrics_.open(job(), report_.resumed_step);
      if (const auto profile = agreement_.first_rank_profile(profile_)) training().profile(*profile);
      data().start(position_, agreement_.ranks(), agreement_.rank());
      train();
    } catch (const StoppedEarly&) {
      report_.stopped = true;
      report_.resident_bytes = resident_memory().peak;
      return std::move(report_);
    } catch (const UserError& error) {
      // Planning that exceeds the process budget leaves a plan that fits: its message says what to do.
      if (error.kind() != UserError::Kind::does_not_fit || !prepared_.has_training() || training().plan().fits) throw;
      report_.fits = false;  // because of scratch that was not known; the plan has the minimum budget
    }
    finish();
    return std::move(report_);
  }

  // Lets each rank find its own mistake in `work`, in which ranks do not wait for one another. A rank that threw at
  // once would end one that is slower, which would then report a failure of the first.
  template <typename Work>
  void refuse_together(const Work& work) const {
    std::exception_ptr refusal;
    try {
      work();
    } catch (const UserError& error) {
      if (error.kind() != UserError::Kind::usage) throw;
      refusal = std::current_exception();
    }
    agreement_.any(refusal != nullptr);
    if (refusal) std::rethrow_exception(refusal);
  }

  // Publishes what this rank does, for messages of the others if it is lost.
  void note(std::string_view place) const {
    if (exchange_) exchange_->note(place);
  }

  void require_steps_to_profile() const {
    if (profile_.file.empty()) return;
    if (const std::optional<int64_t> limit = step_limit_of(requested_))
      require_profiled_step(*limit, "max_steps is", "max_steps");
    if (!agreement_.leads()) return;
    of_key("--profile", [&] { const AtomicFile probe(profile_.file); });  // never committed: leaves no trace
  }

  void require_profiled_step(int64_t steps, std::string_view what, std::string_view key) const {
    if (!profile_.file.empty() && steps < profile_.first_step)
      throw UserError(fmt::format("--profile begins with step {}, but {} {}; set a larger {}", profile_.first_step,
                                  what, steps, key));
  }

  // The data are open: the last step is known, and with it the schedule of the learning rate.
  void count_steps() {
    length_ = run_length_of(job(), data().source().samples(Split::train)).value();
    require_profiled_step(length_.steps, "the steps of all epochs are", "max_epochs");
    scheduler_ = job().scheduler;
    scheduler_.warmup_steps = length_.warmup_steps;
    report_.length = length_;
    if (job().data.is_evaluated()) report_.evaluated = {data().evaluated(), data().source().samples(Split::validation)};
    observer_.counted(length_, report_.evaluated);
  }

  const Job& job() const { return prepared_.job(); }
  const ResolvedSettings& settings() const { return prepared_.settings(); }
  Training& training() { return prepared_.training(); }
  const Training& training() const { return prepared_.training(); }
  MicroBatches& data() { return prepared_.data(); }
  const MicroBatches& data() const { return prepared_.data(); }

  void resume(const std::filesystem::path& checkpoint) {
    std::vector<std::string> notes;
    position_ = resume_run(checkpoint, prepared_, [&](const std::string& line) { notes.push_back(line); });
    report_.resumed_step = saved_step_ = training().steps_done();
    whole_checkpoint_ = checkpoint;
    sound_ = training().steps_skipped() < training().steps_done();
    observer_.resumed(checkpoint.string(), report_.resumed_step);
    for (const std::string& each : notes) observer_.noted(each);
    report_.file_notes.insert(report_.file_notes.end(), notes.begin(), notes.end());
    if (const std::string change = schedule_change(checkpoint, job(), length_); !change.empty())
      observer_.noted(change);
  }

  bool done() const {
    // A resumed run may have read its epochs in other steps than it would have now.
    return training().steps_done() >= length_.steps ||
           (job().max_epochs && data().epoch(position_) >= *job().max_epochs);
  }

  void train() {
    observer_.starting();
    metrics_.start();
    began_at_ = seconds_now();
    exchange_seconds_before_ = exchange_seconds();
    // Ranks of one machine share its processors by intention.
    if (job().device == "cpu" && !exchange_) watch_.emplace(threads_of(job()));
    while (!done()) {
      note(fmt::format("step {}", training().steps_done() + 1));
      auto between = agreement_.between_steps(is_stop_requested(), own_progress());
      ranks_ = std::move(between.ranks);
      if (between.stop) {  // all ranks stop after the same step
        report_.stopped = true;
        break;
      }
      step();
      require_progress();
      // Saves first: an evaluation that fails must not lose the steps before it.
      const int64_t steps = training().steps_done();
      if (job().checkpoint.every_n_steps > 0 && steps % job().checkpoint.every_n_steps == 0 && !save()) break;
      if (job().eval_every_n_steps > 0 && steps % job().eval_every_n_steps == 0) evaluate();
    }
    if (report_.losses.empty()) return;
    if (!job().checkpoint.directory.empty() && saved_step_ != training().steps_done()) save();
    if (!report_.stopped && evaluated_step_ != training().steps_done()) evaluate();
  }

  // Throws if gradients stay non-finite. Such a run only uses time, and would delete its good checkpoints by rotation.
  void require_progress() const {
    if (skipped_in_a_row_ < kMaxSkippedInARow) return;
    const int64_t steps = training().steps_done();
    throw UserError(first_bad_ ? describe_no_step({.skipped = training().steps_skipped(), .steps = steps}, *first_bad_,
                                                  facts_of(*first_bad_), settings().precision)
                               : describe_divergence(kMaxSkippedInARow, steps, saved_step_),
                    UserError::Kind::failure);
  }

  // Reads the samples of a step again: a run that learns keeps no samples.
  std::vector<InputFact> facts_of(const FirstBadStep& step) const {
    std::vector<InputFact> facts;
    for (int64_t done = 0; done < step.windows; done += data().samples_per_batch()) {
      const int64_t first = step.position + done, count = std::min(data().samples_per_batch(), step.windows - done);
      add_input_facts(
          data().training_batch(first, count), [&](int64_t sample) { return data().sample_name(first + sample); },
          facts);
    }
    return facts;
  }

  // Keeps the facts of the first step, if it was skipped or had no finite loss, until a step is sound. The steps before
  // a resumed run were sound if one was taken.
  void note_soundness(const StepResult& result, int64_t number, int64_t position, int64_t windows) {
    sound_ = sound_ || (!result.skipped && std::isfinite(result.loss));
    if (sound_)
      first_bad_.reset();
    else if (!first_bad_)
      first_bad_ = {.step = number,
                    .loss = result.loss,
                    .gradient_norm = result.gradient_norm,
                    .gradient_norms = training().gradient_norms(),
                    .position = position,
                    .windows = windows};
  }

  RankProgress own_progress() const {
    return {.memory_used = training().peak_bytes_used(),
            .memory_planned = training().plan().peak_bytes,
            .exchange_seconds = exchange_seconds() - exchange_seconds_before_,
            .train_seconds = seconds_now() - began_at_};
  }

  // Returns the number of micro batches of the step, by the epoch of its first window.
  int64_t micro_batches() const {
    return std::prev(settings().accumulation().upper_bound(data().epoch(position_)))->second;
  }

  void step() {
    const double begin = seconds_now();
    const int64_t count = micro_batches(), epoch = data().epoch(position_);
    const int64_t number = training().steps_done() + 1;
    const double rate = learning_rate_at(scheduler_, job().optimizer.learning_rate, number, length_.schedule_steps);
    Batch batch;  // one batch at a time, so that memory does not depend on their number
    MicroBatch inputs;
    double data_seconds = 0;
    const StepResult result = training().step(
        count,
        [&](int64_t) -> const MicroBatch& {
          const double begin_of_data = seconds_now();
          batch = data().next();
          data_seconds += seconds_now() - begin_of_data;
          inputs = tensors_over(batch);
          return inputs;
        },
        rate, settings().last_micro_batch > 0);
    prepared_.report_plan_change();
    if (report_.process.first_step == 0) report_.process.first_step = resident_memory().now;
    const int64_t windows = settings().sequences(count) * agreement_.ranks();
    note_soundness(result, number, position_, windows);
    position_ += windows;

    TrainProgress progress;
    progress.step = number;
    progress.max_steps = length_.steps;
    progress.epoch = epoch;
    progress.loss = result.loss;
    progress.gradient_norm = result.gradient_norm;
    progress.learning_rate = rate;
    progress.step_seconds = seconds_now() - begin;
    const int64_t tokens = windows * units_of_sample(job());
    progress.tokens_per_second = static_cast<double>(tokens) / progress.step_seconds;
    progress.skipped = result.skipped;
    progress.steps_skipped = training().steps_skipped();
    progress.loss_scale = training().loss_scale();
    progress.memory_used = training().peak_bytes_used();
    progress.memory_budget = training().plan().budget.device_bytes();
    progress.ranks = ranks_;
    skipped_in_a_row_ = result.skipped ? skipped_in_a_row_ + 1 : 0;
    report_.losses.push_back(result.loss);
    step_times_.add(progress.step_seconds, tokens, report_.job.plan.time.step(count, settings().last_micro_batch > 0),
                    data_seconds);
    metrics_.log(job(), progress, tokens, position_);
    observer_.stepped(progress);
    if (watch_) {
      const double predicted = report_.job.plan.time.step(count, settings().last_micro_batch > 0);
      if (const std::string line =
              watch_->after_step(progress.step_seconds - data_seconds, predicted, memory_stall_seconds());
          !line.empty())
        observer_.noted(line);
    }
  }

  // Evaluates. The result is the mean over windows, so that a last micro batch that is not full has the weight of its
  // windows.
  void evaluate() {
    // A training that was recorded without 'evaluate' cannot evaluate.
    if (data().evaluation_batches() == 0 || !job().data.is_evaluated()) return;
    note(fmt::format("the evaluation after step {}", training().steps_done()));
    const double begin = seconds_now();
    std::map<std::string, at::Tensor> sums;
    std::vector<double> losses;  // losses of this rank's batches: rank, rank + ranks, …
    const int64_t count = data().evaluation_batches(), ranks = agreement_.ranks();
    bool stopped = false;
    // All ranks evaluate the same number of batches, because they may have to gather parameters.
    for (int64_t i = agreement_.rank(); i < (count + ranks - 1) / ranks * ranks; i += ranks) {
      stopped |= is_stop_requested();  // a part of the windows is no valid evaluation
      if (ranks == 1 && stopped) return;
      int64_t counted = 0;
      Batch batch = data().evaluation_batch(std::min(i, count - 1), counted);
      std::map<std::string, at::Tensor> beyond;
      const double loss = training().evaluate(tensors_over(batch), i < count ? sums : beyond);
      if (i < count) losses.push_back(loss * static_cast<double>(counted));
    }
    if (agreement_.any(stopped)) return;
    double sum = 0;
    int64_t windows = 0;
    for (const double each : agreement_.in_turn(losses, count)) sum += each;
    for (int64_t i = 0; i < count; ++i) windows += data().evaluation_windows(i);
    agreement_.add_up(sums);
    const double loss = sum / static_cast<double>(windows);
    if (!report_.first_evaluation) report_.first_evaluation = loss;
    report_.last_evaluation = loss;
    evaluated_step_ = training().steps_done();
    if (prepared_.metrics_of()) report_.metrics = prepared_.metrics_of()(sums);
    std::vector<std::pair<std::string, MetricValue>> fields = {{"validation_loss", loss}};
    for (const auto& [name, value] : report_.metrics) fields.emplace_back(name, value);
    report_.never_trained = data().source().never_trained();
    if (!report_.never_trained.empty()) fields.emplace_back("never_trained", report_.never_trained);
    metrics_.write(evaluated_step_, fields);
    observer_.evaluated(evaluated_step_, loss);
    if (!report_.metrics.empty()) observer_.measured(evaluated_step_, report_.metrics);
    if (!report_.never_trained.empty()) observer_.noted(report_.never_trained);
    metrics_.exclude(seconds_now() - begin);  // evaluation time is not training time
  }

  // Returns false if the checkpoint cannot be written: the run ends then, because further steps would be lost too, and
  // its report names the checkpoint that is whole. Other ranks wait for this one, so with several the error ends all.
  bool save() {
    const double begin = seconds_now();
    const int64_t step = saved_step_ = training().steps_done();
    note(fmt::format("the checkpoint of step {}", step));
    try {
      const std::filesystem::path file =
          save_run(prepared_, position_, schedule_text(job(), length_), agreement_.leads());
      if (!file.empty()) {
        observer_.saved(file.string(), step);
        whole_checkpoint_ = file;
      }
    } catch (const UserError& error) {
      if (exchange_) throw;
      report_.not_written.push_back(
          fmt::format("the checkpoint of step {}, with which the run ends: {}; {}", step, error.what(),
                      whole_checkpoint_.empty() ? "no earlier one was saved"
                                                : fmt::format("{} is whole", whole_checkpoint_.string())));
      report_.stopped = report_.stopped || !done();
      return false;
    }
    metrics_.exclude(seconds_now() - begin);
    return true;
  }

  void finish() {
    note("the end of the run");
    if (std::string lost = metrics_.not_written(); !lost.empty()) report_.not_written.push_back(std::move(lost));
    try {
      report_.steps_profiled = training().write_profile();
    } catch (const UserError& error) {
      report_.not_written.push_back(fmt::format("the profile: {}", error.what()));
    }
    prepared_.take_plan();
    report_.planned_peak_bytes = report_.job.plan.peak_bytes;
    report_.planned = report_.job.plan.breakdown;
    report_.used = training().used();
    report_.device_work = training().device_work();
    report_.measured_peak_bytes = report_.used.measured_peak();
    report_.measured = measured_breakdown(report_.planned, report_.used);
    report_.resident_bytes = resident_memory().peak;
    report_.ranks = agreement_.uses({.planned = report_.planned_peak_bytes,
                                     .used = report_.measured_peak_bytes,
                                     .planned_host = report_.job.plan.host_bytes,
                                     .used_host = report_.used.host,
                                     .resident = report_.resident_bytes});
    if (exchange_)
      exchange_->watch_others({});  // the last exchange: other ranks end before this one has counted baselines
    if (checked_ops_) report_.checked_ops = checked_ops_->summary();
    report_.steps = training().steps_done();
    report_.steps_skipped = training().steps_skipped();
    prepared_.release_memory();  // the report has its figures
    compute_baselines();
    report_.step_seconds = step_times_.median_seconds();
    report_.predicted_step_seconds = step_times_.median_predicted_seconds();
    report_.data_wait_seconds = step_times_.mean_data_seconds();
    report_.data_note = data_note(job(), step_times_);
    report_.tokens_per_second = step_times_.tokens_per_second();
    // Step times of ranks that share a machine's cores say nothing about its ops, nor do those of checked ops.
    if (job().device == "cpu" && step_times_.representative() && profile_.file.empty() && !exchange_ && !checked_ops_)
      report_.prediction_notes = prediction_notes(job(), report_.job, step_times_);
  }

  // Computes the baselines on the rank that reports them. The training is done and saved by now, so an error is a line
  // of the report. Random samples have no baselines.
  void compute_baselines() {
    if (!report_.last_evaluation || report_.stopped || is_stop_requested()) return;
    if (!agreement_.leads() || !job::data_kind(job().data.type).from_files) return;
    try {
      for (const Baseline& each : data().baselines()) report_.baselines.push_back({each.metric, each.name, each.value});
    } catch (const std::exception& error) {
      // libtorch's messages have a stack trace after their first line.
      const std::string_view message = error.what();
      report_.not_written.push_back(fmt::format("baselines: {}", message.substr(0, message.find('\n'))));
    }
  }

  Job requested_;
  TrainObserver& observer_;
  std::optional<CheckedOps> checked_ops_;  // empty: ops are not checked
  ProfileOptions profile_;                 // without a file: no profile
  std::shared_ptr<Exchange> exchange_;     // null: one rank
  RankAgreement agreement_;
  TrainReport report_;
  std::optional<RunOutputs> outputs_;
  PreparedRun prepared_;  // refers to those above
  RunMetrics metrics_;
  int64_t position_ = 0;                         // windows read, counted over all epochs
  int64_t saved_step_ = 0, evaluated_step_ = 0;  // saved_step_: the last one that was tried
  std::filesystem::path whole_checkpoint_;       // the newest one
  int64_t skipped_in_a_row_ = 0;
  RunLength length_;
  SchedulerConfig scheduler_;              // with the warm-up in steps
  bool sound_ = false;                     // a step was taken with a finite loss
  std::optional<FirstBadStep> first_bad_;  // first step of the run, while none was sound
  StepTimes step_times_;
  std::optional<SharedMachineWatch> watch_;            // empty: several ranks, or a device
  double began_at_ = 0, exchange_seconds_before_ = 0;  // time of the first step of this run; exchange seconds of the
                                                       // thread before it
  std::vector<RankProgress> ranks_;
};

}  // namespace

TrainReport train_job(const Job& job, TrainObserver& observer) {
  return train_job(job, observer, {});
}

TrainReport train_job(const Job& job, TrainObserver& observer, const ProfileOptions& profile) {
  return train_job(job, observer, profile, nullptr);
}

TrainReport train_job(const Job& job, TrainObserver& observer, const ProfileOptions& profile,
                      std::shared_ptr<Exchange> exchange, bool check_ops) {
  const StopRequest request;
  try {
    return Run(job, observer, profile, exchange, check_ops).run();
  } catch (const std::exception& error) {
    if (exchange) exchange->fail(error.what());  // the others wait for this rank
    throw;
  }
}

}  // namespace plimsoll
