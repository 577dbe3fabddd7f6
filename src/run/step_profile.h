// Declares StepProfile: times chosen steps of a training, op by op, and writes them to a file (plimsoll/options.h).
#pragma once

#include <filesystem>
#include <memory>
#include <mutex>
#include <vector>

#include "collectives/exchange.h"
#include "plimsoll/options.h"
#include "plimsoll/plan.h"
#include "run/executor/executor.h"
#include "run/profile_file.h"

namespace plimsoll {

class StepProfile final : public OpObserver {
 public:
  /// `exchange` connects the training's ranks, each with a profile of the same steps. Rank 0 writes the file of all
  /// ranks; `options.file` of other ranks is ignored. nullptr: one rank. Throws UserError if the file could not be
  /// written, because the steps would be timed for nothing.
  StepProfile(ProfileOptions options, ProfileTitle title, Exchange* exchange);

  /// Returns true if the step that is about to begin, the `number`th of this run from 1, is to be timed.
  bool wants(int64_t number) const;

  /// Begins a step: observations until end_step() belong to it. `number` is its number in the training. Reads the
  /// plan's ops now; the plan may be destroyed later.
  void begin_step(int64_t number, const Plan& plan);
  void add_part(std::string_view name, const TimeSpan& span);
  void ran(int32_t op, const TimeSpan& span) override;
  void copied(int32_t op, const TimeSpan& span) override;
  /// Ends the step, after all of its copies are done.
  void end_step();
  /// Drops a step that failed; it is not in the profile.
  void drop_step();
  /// Forgets the plan, because another one is in force from now on.
  void forget_plan() { plan_.reset(); }

  /// Writes the file after the last of the chosen steps is done. With several ranks, all call it after the same step.
  void write_when_complete();
  /// Writes the steps so far if that has not been done; returns their number. With several ranks, all call it; each
  /// throws UserError if rank 0 cannot write the file.
  int64_t write();

 private:
  ProfileOptions options_;
  ProfileTitle title_;
  Exchange* exchange_;                        ///< nullptr: one rank
  std::shared_ptr<const ProfiledPlan> plan_;  ///< the plan in force, once a step was timed under it
  std::vector<ProfiledStep> steps_;
  ProfiledStep now_;
  bool tried_ = false;       ///< true after an attempt to write the file before the run ended
  std::mutex copies_mutex_;  ///< guards now_.copies, which another thread appends to
  int64_t done_ = 0;
  bool written_ = false;
};

/// A timer of a part of a step while it lives; does nothing if `profile` is null.
class TimedPart {
 public:
  TimedPart(StepProfile* profile, std::string_view name) : profile_(profile), name_(name) {
    if (profile_) begin_ = ProfileClock::now();
  }
  ~TimedPart() {
    if (profile_) profile_->add_part(name_, {begin_, ProfileClock::now()});
  }
  TimedPart(const TimedPart&) = delete;
  TimedPart& operator=(const TimedPart&) = delete;

 private:
  StepProfile* profile_;
  std::string_view name_;
  ProfileClock::time_point begin_;
};

/// Writes the steps of every rank to `file` of rank 0, whole or not at all: a process for each rank, "rank R on HOST".
/// All ranks call it, each with its own steps, at least one. Ranks of one host share one clock, whose earliest
/// beginning of a step is 0 in the file. The first profiled steps of different hosts therefore begin together. Events
/// go to rank 0 in pieces of about 1 MiB. Throws UserError (failure) on every rank if rank 0 cannot write the file.
void write_profile_of_ranks(const std::filesystem::path& file, const ProfileTitle& title,
                            const std::vector<ProfiledStep>& steps, Exchange& exchange);

}  // namespace plimsoll
