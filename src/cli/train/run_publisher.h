// Declares an observer that writes the state of a run for `plimsoll monitor` and passes all events on.
#pragma once

#include "cli/run_status.h"
#include "plimsoll/train_job.h"

namespace plimsoll::cli {

class RunPublisher : public TrainObserver {
 public:
  /// `next` receives all events and must outlive this object.
  RunPublisher(const Job& job, TrainObserver& next);
  /// Publishes that the run has failed, unless its end was published.
  ~RunPublisher() override;
  RunPublisher(const RunPublisher&) = delete;
  RunPublisher& operator=(const RunPublisher&) = delete;

  /// Publishes the end of the run. A run that has taken no step is listed no longer.
  void ended(const TrainReport& report);

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

 private:
  void take(const PlannedJob& job);
  void publish(bool at_once);
  void publish_end(const char* state);

  TrainObserver& next_;
  RunStatus status_;
  RunStatusFile file_;
  double published_ = 0;
};

}  // namespace plimsoll::cli
