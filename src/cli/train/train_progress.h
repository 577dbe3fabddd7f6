// Declares the output of a training run on standard error: progress of the steps, and a line for every other event.
// Offers changes of a job whose start found less memory than its budget.
#pragma once

#include <memory>
#include <string>

#include "cli/job_arguments.h"
#include "cli/process.h"
#include "cli/screen/progress.h"
#include "cli/screen/terminal.h"
#include "plimsoll/train_job.h"

namespace plimsoll::cli {

class TrainProgressView : public TrainObserver {
 public:
  /// `signals` get the effect of a stop at each time, and must outlive this object.
  TrainProgressView(const Job& job, StopSignals& signals);

  void preparing(const std::string& what, double fraction) override;
  void planned(const PlannedJob& job) override;
  void replanned(const std::string& why, const PlannedJob& job) override;
  void counted(const RunLength& length, const EvaluatedPart& evaluated) override;
  void resumed(const std::string& checkpoint, int64_t step) override;
  void stepped(const TrainProgress& progress) override;
  void evaluated(int64_t step, double loss) override;
  void measured(int64_t step, const std::vector<std::pair<std::string, double>>& metrics) override;
  void noted(const std::string& what) override;
  void sample_skipped(const std::string& what) override;
  void saved(const std::string& checkpoint, int64_t step) override;
  void starting() override;
  void metrics_write_failed(const std::string& why) override;

  /// Ends the progress line, so that later output starts on a line of its own.
  void finish();

 private:
  bool to_be_shown(const TrainProgress& progress) const;
  void note(const std::string& line);
  void begin_steps();

  StopSignals& signals_;
  bool saves_;
  const Job job_;
  int64_t max_steps_;  // 0: not known until the data are open
  int64_t every_n_steps_;
  std::string unit_;        ///< "tokens" or "samples"
  bool states_budget_;      ///< the job has memory_budget
  int64_t first_step_ = 0;  ///< steps done before this run
  std::string preparing_what_;
  std::unique_ptr<Waiting> planning_;  ///< exists until the first output
  std::unique_ptr<Progress> preparing_;
  std::unique_ptr<Progress> steps_;
};

/// Returns "evaluated on 128 of 512 held-out samples (65536 tokens)", or why nothing is; "" if nothing is held out.
std::string describe_evaluated_part(const Job& job, const EvaluatedPart& part);

/// Returns "7.42 / 8.00 GiB"; only the used amount if there is no budget.
std::string used_of_budget(int64_t used, int64_t budget);

/// Prints what `plimsoll plan` prints of the job with memory_budget=`budget`: changes that would fit, each planned,
/// with the budget as a part of the change. Prints nothing if the job fits this budget. The search ends after ten
/// seconds, or at Ctrl-C.
void print_changes_within(const std::string& budget, const JobArguments& arguments, const Screen& screen);

}  // namespace plimsoll::cli
