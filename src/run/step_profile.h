// Times chosen steps of a training, op by op, and writes them to a file (plimsoll/options.h).
#pragma once

#include <memory>
#include <mutex>
#include <vector>

#include "collectives/exchange.h"
#include "plimsoll/plan.h"
#include "plimsoll/training.h"
#include "run/op_observer.h"
#include "run/profile_file.h"

namespace plimsoll {

class StepProfile final : public OpObserver {
 public:
  /// `exchange`: of the training's ranks, each with a profile of the same steps; rank 0 writes the file of all, and the
  /// file of other ranks does not count. nullptr: one rank. Throws UserError where the file could not be written: steps
  /// would be timed for nothing.
  StepProfile(ProfileOptions options, ProfileTitle title, Exchange* exchange);

  /// Whether the step that is about to begin, the `number`th of this run from 1, is to be timed.
  bool wants(int64_t number) const;

  /// The step begins: what is heard until end_step() is of it. `number` is the training's. The plan is asked for what
  /// ops are now, and need not live on.
  void begin_step(int64_t number, const Plan& plan);
  void add_part(const char* name, const TimeSpan& span);
  void ran(int32_t op, const TimeSpan& span) override;
  void copied(int32_t op, const TimeSpan& span) override;
  /// The step is done, and all of its copies.
  void end_step();
  /// The step failed: it is not in the profile.
  void drop_step();
  /// Another plan is in force from now on.
  void forget_plan() { plan_.reset(); }

  /// Writes the file once the last of the chosen steps is done. With several ranks all call it after the same step.
  void write_when_complete();
  /// Writes the steps so far if that has not been done; gives how many. With several ranks all call it; each throws
  /// UserError if rank 0 cannot write the file.
  int64_t write();

 private:
  ProfileOptions options_;
  ProfileTitle title_;
  Exchange* exchange_;                        ///< nullptr: one rank
  std::shared_ptr<const ProfiledPlan> plan_;  ///< that is in force, once a step was timed under it
  std::vector<ProfiledStep> steps_;
  ProfiledStep now_;
  bool tried_ = false;       ///< to write it before the run ends
  std::mutex copies_mutex_;  ///< now_.copies: another thread adds to them
  int64_t done_ = 0;
  bool written_ = false;
};

/// While it lives, a part of a step is timed; nothing where `profile` is null.
class TimedPart {
 public:
  TimedPart(StepProfile* profile, const char* name) : profile_(profile), name_(name) {
    if (profile_) begin_ = ProfileClock::now();
  }
  ~TimedPart() {
    if (profile_) profile_->add_part(name_, {begin_, ProfileClock::now()});
  }
  TimedPart(const TimedPart&) = delete;
  TimedPart& operator=(const TimedPart&) = delete;

 private:
  StepProfile* profile_;
  const char* name_;
  ProfileClock::time_point begin_;
};

}  // namespace plimsoll
