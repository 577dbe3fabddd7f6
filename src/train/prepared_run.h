// Declares the plan, the data and the memory of a run, a second plan if memory is no longer available, and the
// request to stop a run.
#pragma once

#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "checkpoint/checkpoint_state.h"
#include "checkpoint/data_facts.h"
#include "collectives/exchange.h"
#include "plimsoll/error.h"
#include "plimsoll/plan_job.h"
#include "plimsoll/train_job.h"
#include "plimsoll/training.h"
#include "train/micro_batches.h"
#include "train/rank_agreement.h"

namespace plimsoll {

/// A run's plan, its data and its training. All ranks call the same functions in the same order. plan(), open_data()
/// and identify_data() throw StoppedEarly on every rank if one is asked to stop; so does take_memory() while it plans
/// again.
class PreparedRun {
 public:
  /// `requested` may change until plan() is called. plan() writes the plan to `report`, open_data() what the data left
  /// out, take_memory() whether the job fits, and take_plan() `report.job.plan`. `exchange` is null if there is one
  /// rank. The arguments must outlive this.
  PreparedRun(const Job& requested, TrainObserver& observer, std::shared_ptr<Exchange> exchange,
              const RankAgreement& agreement, TrainReport& report)
      : requested_(requested),
        job_(requested),
        observer_(observer),
        exchange_(std::move(exchange)),
        agreement_(agreement),
        report_(report) {}

  void plan(PlanTarget target);
  /// Opens the data. One rank makes files that all read, such as a tokenized text.
  void open_data();
  /// Identifies the data that are open: the first rank reads their files, and all ranks get its facts.
  void identify_data();
  /// Compares the process, with the data that are open, with the process budget, and plans the job again for less if it
  /// exceeds it. `report.fits` says whether it is kept; `report.job.process` has what the process takes.
  void keep_process_budget();
  /// Counts what a conversion allocates while it is made: of the checkpoint's state to other formats, or of weights
  /// that are quantized when they are read. Called after plan(). Empty: the run does not resume.
  void note_conversions(const std::optional<std::filesystem::path>& checkpoint);
  /// Allocates the memory. If another program has allocated it since planning, the job is planned again for the
  /// available memory, and its data are opened again. `report.fits` says whether memory was allocated.
  void take_memory();

  /// Reports a change of plan because kernels allocated other scratch than was planned.
  void report_plan_change();
  /// Updates the plan in the report, with the reasons of the job's search, whose minimum budget stays.
  void take_plan();
  /// Releases the memory. The data remain.
  void release_memory() { training_.reset(); }

  const Job& requested() const { return requested_; }
  const Job& job() const { return job_; }  ///< job with all choices fixed after planning
  const ResolvedSettings& settings() const { return report_.job.settings; }
  /// Settings of the job that a checkpoint stores; known when the data are open.
  const std::map<std::string, std::string>& origin() const { return origin_; }
  /// Facts about the data that a checkpoint stores; nullopt before identify_data().
  const std::optional<DataFacts>& data_facts() const { return data_facts_; }
  MicroBatches& data() { return *data_; }
  const MicroBatches& data() const { return *data_; }
  bool has_training() const { return training_.has_value(); }
  Training& training() { return *training_; }
  const Training& training() const { return *training_; }
  /// Returns the slices of the state; it is valid as long as the training.
  SlicedState sliced_state() const {
    return {training_->slices(), exchange_.get(), [this] { training_->require_state(); }};
  }
  /// Function of the metrics of the model's evaluation; empty: it has none.
  const decltype(Step::metrics)& metrics_of() const { return metrics_of_; }

 private:
  template <typename Work>
  void stop_together(const Work& work) const;
  void open_own_data();
  void count_process();
  int64_t later_bytes() const;
  void replan(const MemoryUnavailable& error);

  const Job& requested_;
  Job job_;
  TrainObserver& observer_;
  std::shared_ptr<Exchange> exchange_;
  const RankAgreement& agreement_;
  TrainReport& report_;
  std::map<std::string, std::string> origin_;
  std::string tokenizer_text_;  // OpenedSamples::tokenizer_text
  std::optional<DataFacts> data_facts_;
  std::optional<MicroBatches> data_;
  int64_t conversion_bytes_ = 0;
  std::optional<Training> training_;
  std::string plan_change_;  // the last change that was reported to the observer
  decltype(Step::metrics) metrics_of_;
};

/// Returns a target with less memory than `planned` was refused, whatever the system reports as available, so that
/// repeated calls decrease. A budget that the job states is not reduced: throws MemoryUnavailable that says which
/// budget to lower, and to which value, or BudgetUnavailable if no plan of the job needs as little as there is.
PlanTarget replan_target(const Job& job, const PlannedStep& planned, const MemoryUnavailable& error);

/// The exception of a run that is asked to stop before its first step: while it is planned or its data are opened. No
/// half-written token file is left.
struct StoppedEarly {};

/// Returns true if the run is asked to stop, by request_stop() (plimsoll/train_job.h).
bool is_stop_requested() noexcept;

/// The scope of a run. The destructor clears the request to stop.
struct StopRequest {
  ~StopRequest();
};

/// Plans the job as plan_job() does, but measures no op times again and compares no precisions: for plans of changed
/// jobs, whose unchanged job plan_job() has planned.
PlannedJob plan_once(const Job& job, const PlanTarget& target, const SearchOptions& search = {});

/// Thrown through the planner when the caller's function requests a stop; the search then returns what it has found.
struct SearchStopped {};

}  // namespace plimsoll
